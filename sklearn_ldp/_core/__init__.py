"""Tools that the public rooms share; no user imports from here.

From the lowest room to the highest, and each imports from those before it only: `support` (text,
files, parameters, random seeds), `report_page` (how a result is shown), `numerics` (functions of
arrays), `domains` (the public categories, and the codes of users' values), `queries` (what is
asked), `noise` (the errors of an estimate: every covariance is derived there), `statements`
(intervals, differences, tests), `estimates` (the results), `mechanisms` (what a client does to a
code, and a server to a report), `lifecycle` (what every oracle and survey does in fit,
partial_fit, merge and privatize) and `storage` (files, batches, checkpoints and clients).
"""
