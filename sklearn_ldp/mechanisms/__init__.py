"""What a client does to a value and a server to a report, in integers.

The public names are in :mod:`sklearn_ldp.oracles.channels`.
"""
