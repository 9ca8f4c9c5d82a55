"""A tally as somebody could send it who has changed it."""

from dataclasses import replace

from sklearn_ldp._core.aggregation._ledger import Ledger
from sklearn_ldp._core.mechanisms import Counts


def forged(tally, **changed):
    """Return the tally with other tallies, sizes, batches or digests."""
    names = ("tallies", "sizes", "batches", "digests")
    own = {name: changed.pop(name, getattr(tally, name)) for name in names}
    assert not changed
    counts = Counts(own["tallies"][None], own["sizes"][None])
    return replace(tally, counts=counts, ledger=Ledger(own["batches"], own["digests"]))
