"""Mechanisms: what a client does with a value and a server with a report, in integers.

The public names are in :mod:`sklearn_ldp.oracles.channels`.
"""

from ._coins import CoinStreams as CoinStreams
