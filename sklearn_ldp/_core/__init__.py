"""Tools that the public rooms share; no user imports from here.

The rooms are listed from the lowest to the highest, and each room imports only from rooms before
it: `support` (text, files, parameters, random seeds), `report_page` (the page that shows a result),
`numerics` (functions of arrays), `domains` (the public categories, and the codes of users' values),
`queries` (linear queries to a distribution), `noise` (the errors of an estimate: every covariance
is derived there), `statements` (intervals, differences, tests), `displays` (plots of results),
`estimates` (the results), `mechanisms` (the client's randomization of a code, and the server's
count of a report), `lifecycle` (the steps that every oracle and survey shares: fit, partial_fit,
merge and privatize) and `storage` (files, batches, checkpoints and clients).
"""
