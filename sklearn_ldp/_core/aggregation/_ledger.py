"""The ledger of a collection: the batches that were counted, and digests that identify copies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..common.locks import lock_of
from ..mechanisms import Protocol
from ._batches import RepeatedBatchError
from ._header import POSTED
from .containers import n_integers, report_fields

# -- digests that identify batches, however the batches were stored and cut ----------------------
PIECE = 16
#: Bytes of each digest in a ledger: of the sums, of the beginning, and of the file if there was
#: one. Digests of lines follow if clients have posted the lines.
N_BYTES = 3 * PIECE
_FILE = slice(2 * PIECE, N_BYTES)
# If half of 32 digests must agree, honest files that share a tenth of their lines are refused once
# in 10**8 cases.
N_LINES, LINE = 32, 8
LENGTHS = range(N_BYTES, N_BYTES + N_LINES * LINE + 1, LINE)
_RARE_BITS = 40  # a coincidence in a trillion batches
_BEGINNING = 4096  # reports: for most mechanisms enough to differ from any other batch ..
_SHORT_BEGINNING, _TELLING_BITS = 256, 8.0  # .. and fewer if each report has this many bits
SMALL = 4096  # integers in the reports of a small batch, with a digest of the reports themselves
_ENOUGH_BITS = 128  # as in a digest: no two honest batches agree by chance


class Entry(NamedTuple):
    """A batch in a ledger: the number of earlier batches, its reports, and its digest or b""."""

    place: int
    n_reports: int
    digest: bytes


class Ledger(Mapping[str, int]):
    """Numbers of reports of the batches that were counted, by their ids; immutable.

    A batch without a digest (bytes, by its id) is not compared with other batches of the same id.
    Without a `rule`, the ledger compares only ids and digests, so it does not detect a copy under
    another id.
    """

    # Ledgers that grow out of each other share these mappings, to which entries are only added. A
    # ledger is its first entries. So growing costs as much as the new entries, and an interruption
    # has no effect.
    _by_id: dict[str, Entry]
    _by_key: dict[bytes, str]  # ids of batches by a key that only a copy shares
    _by_line: dict[bytes, str]  # one batch of posted lines that had the line
    _by_place: dict[bytes, str]  # the first batch of posted lines of a file at that place
    #: Numbers of lines of the batches of posted lines, which identify files that grew.
    posted_sizes: set[int]

    def __init__(
        self, batches: Mapping[str, int], digests: Mapping[str, bytes], rule: CopyRule | None = None
    ) -> None:
        self._rule = rule
        self._n = 0
        self._by_id = {}
        self._by_key = {}
        self._by_line = {}
        self._by_place = {}
        self.posted_sizes = set()
        for batch, n_reports in batches.items():
            self._add(batch, n_reports, digests.get(batch, b""))

    def __reduce__(self) -> tuple[Any, ...]:
        return Ledger, (dict(self), self.digests, self._rule)

    # -- a mapping ----------------------------------------------------------------------------
    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._by_id)[: self._n])  # a larger ledger may add entries to the mapping

    def __contains__(self, batch: object) -> bool:
        entry = self._by_id.get(batch)  # type: ignore[call-overload]
        return entry is not None and entry.place < self._n

    def __getitem__(self, batch: str) -> int:
        if batch not in self:
            raise KeyError(batch)
        return self._by_id[batch].n_reports

    def __repr__(self) -> str:
        return repr(dict(self))

    def digest(self, batch: str) -> bytes:
        """Return the digest of a batch; empty if it has none."""
        return self._by_id[batch].digest if batch in self else b""

    @property
    def digests(self) -> dict[str, bytes]:
        """The digests of the batches that have one."""
        return {batch: digest for batch in self if (digest := self._by_id[batch].digest)}

    def without_order(self, rule: CopyRule | None = None) -> Ledger:
        """Return the part that may be stored: no digest reveals the order in which users came.

        An attacker who knows nearly all reports of an array, or of posted lines, could find that
        order by trying some. Other files were shuffled before.
        """
        digests = {
            batch: digest
            if any(digest[_FILE]) and not batch.startswith(POSTED)
            else digest[:PIECE] + bytes(PIECE) + digest[2 * PIECE :]
            for batch, digest in self.digests.items()
        }
        return Ledger(self, digests, rule)

    # -- repeats ------------------------------------------------------------------------------
    def repeats(self, other: Ledger) -> list[str]:
        """Return the batches of another ledger that are also in this ledger.

        Raise RepeatedBatchError if one of them had other reports, or may have had other reports.
        """
        seen = [batch for batch in other if batch in self]
        for batch in seen:
            known, offered = self.digest(batch), other.digest(batch)
            if known and offered and known[:PIECE] != offered[:PIECE]:
                text = f"This collection has seen batch {batch!r} before, with other reports. Only"
                remedy = "those count. Ask the sender; if these are also right, give them a new id."
                raise RepeatedBatchError(f"{text} {remedy}", batch)
            is_telling = self._rule is None or self._rule.tells_in_any_order(self[batch])
            if batch.startswith(POSTED) and not is_telling and _is_namesake(known, offered):
                text = f"batch {batch!r}, or one with as many reports of each kind, before"
                remedy = "Leave it out if it is a copy, or else give the file another name"
                raise _counted(batch, f"{text}, in a file of this name in another folder. {remedy}")
        return seen

    def has_file(self, batch: str, file_sha256: str) -> bool:
        """Whether a batch of this id came in a file with this digest in its header."""
        if batch not in self:
            return False
        digest = self.digest(batch)
        file_digest = file_digest_of(file_sha256)[:PIECE]
        return not digest or (len(file_digest) == PIECE and digest[_FILE] == file_digest)

    def refuse_grown(self, batch: str, prefixes: Iterable[str]) -> None:
        """Raise RepeatedBatchError if the first lines of a file were counted (ids of prefixes)."""
        known = next(filter(self.__contains__, prefixes), None)
        if known is not None:
            text = f"the first {self[known]} of the lines of batch {batch!r} before"
            remedy = "Put the lines after them into a file of another name"
            raise _counted(batch, f"{text}, as batch {known!r}. {remedy}")

    def __add__(self, other: Ledger) -> Ledger:
        with lock_of(Ledger):  # if two ledgers grow out of this ledger, the second gets copies
            return self._grown(other)

    def _grown(self, other: Ledger) -> Ledger:
        if seen := self.repeats(other):
            raise repeated(seen)
        if len(self._by_id) > self._n:  # this ledger has grown already, or was interrupted
            grown = Ledger(self, self.digests, self._rule)
        else:
            grown = object.__new__(Ledger)
            vars(grown).update(vars(self))
        for batch, n_reports in other.items():
            grown._refuse_copy(batch, n_reports, other.digest(batch))
            grown._add(batch, n_reports, other.digest(batch))
        return grown

    def _refuse_copy(self, batch: str, n_reports: int, digest: bytes) -> None:
        """Raise RepeatedBatchError if other batches have the reports, or most posted lines."""
        # Without digests of lines, it is unknown whether a file of posted lines has grown.
        place = digest[_FILE] if batch.startswith(POSTED) and len(digest) == N_BYTES else b""
        if (known := self._by_place.get(place)) is not None and known in self:
            text = f"a file at the place of batch {batch!r} before, as batch {known!r}"
            raise _counted(batch, f"{text}, and a tally does not reveal whether it has grown")
        if self._rule is None:
            return
        original = self._by_key.get(self._rule.key(digest, n_reports))
        if original is not None:
            text = f"the reports of batch {batch!r} before, as batch {original!r}"
            remedy = "a report counts once. Leave it out (simulations: a seed for each batch)."
            raise RepeatedBatchError(f"This collection has seen {text}: {remedy}", batch)
        shared = Counter(self._by_line[x] for x in lines_of(digest) if x in self._by_line)
        n_reports = sum(self[other] for other in shared)
        n_choices = len(self) ** len(shared)
        if self._rule.tells_lines(shared.total(), n_reports, n_choices):
            text = f"most lines of batch {batch!r} before, as batch {min(shared)!r} or others"
            raise _counted(batch, f"{text}. Leave out the lines that were counted")

    def _add(self, batch: str, n_reports: int, digest: bytes) -> None:
        self._by_id[batch] = Entry(self._n, n_reports, digest)
        if batch.startswith(POSTED) and any(digest[_FILE]):
            self._by_place.setdefault(digest[_FILE], batch)
        if self._rule is not None:
            if key := self._rule.key(digest, n_reports):
                self._by_key.setdefault(key, batch)
            if batch.startswith(POSTED):
                self.posted_sizes.add(n_reports)
                for line in lines_of(digest):
                    self._by_line.setdefault(line, batch)
        self._n += 1


def _is_namesake(known: bytes, offered: bytes) -> bool:
    """Whether batches of one id came in files of different places, or from an unknown place."""
    return bool(known and offered) and not (any(known[_FILE]) and known[_FILE] == offered[_FILE])


def repeated(batches: list[str], n_others: int = 0) -> RepeatedBatchError:
    """Return the error for batches that were seen before, together with other batches."""
    more = f" and {len(batches) - 1} more" if len(batches) > 1 else ""
    remedy = 'Leave the batch out, or ask to ignore repeats (on_repeat="ignore").'
    if n_others:
        remedy = (
            f"It comes in one sum with {n_others} others, which cannot be separated. Count the "
            "files of all servers in one `aggregate`, or merge a tally of each file (tally_file)."
        )
    text = f"batch {batches[0]!r}{more} before: a report counts once"
    return RepeatedBatchError(f"This collection has seen {text}. {remedy}")


def _counted(batch: str, description: str) -> RepeatedBatchError:
    """Return the error for lines that may or may not be repeats; only their users know."""
    text = f"This collection has counted {description}: a report counts once."
    remedy = "Close a file before it is counted, and give each batch a file of its own."
    return RepeatedBatchError(f"{text} {remedy}", batch)


class CopyRule(NamedTuple):
    """The rule that distinguishes copies of a batch from other batches.

    Parameters
    ----------
    entropy : float
        Collision entropy of a report, see :class:`Mechanism`.
    n_small : int
        Maximum number of reports for a digest of the reports themselves instead of their sums.

    Notes
    -----
    *Proof of the bound.* Let P_v be the distribution of the report of a user with value v, and let
    its collision entropy be at least H. Then the sum of P_v(r)**2 over all reports r is at most
    2**-H for all v. Two independent users have equal reports with probability sum_r P_v(r) P_w(r),
    which is also at most 2**-H, by Cauchy and Schwarz. Users randomize independently. So the first
    m reports of two batches are equal, position by position, with a probability of at most
    2**-(m H), for any values and in any order that does not depend on the reports. The n reports of
    two batches are equal in *some* order with a probability of at most n! 2**-(n H), because there
    are n! orders.

    Sums have no such bound, even if two reports are rarely equal: each support count of two batches
    of n users agrees with a probability of about 1 / n. So equal sums are not evidence of a copy.
    """

    entropy: float
    n_small: int

    @classmethod
    def of(cls, protocol: Protocol) -> CopyRule:
        """Return the rule for reports of a protocol."""
        entropy = protocol.mechanism.report_entropy(order=2)
        fields = report_fields(protocol)
        n_small = SMALL // n_integers(fields) if fields else 0
        return cls(entropy, min(n_small, n_first(entropy)))

    def key(self, digest: bytes, n_samples: int) -> bytes:
        """Return the key of a batch.

        Parameters
        ----------
        digest : bytes
            The result of `Beginning.digest`; empty if it is unknown.
        n_samples : int
            Number of reports of the batch.

        Returns
        -------
        bytes
            A key that two honest batches share with a probability of at most 2**-128. It is the
            digest of all reports in any order, or the digests of the sums and of the first reports
            in their order. It is empty if the batch is too small for either.
        """
        in_order = min(n_samples, n_first(self.entropy)) * self.entropy
        if not digest or in_order < _ENOUGH_BITS:
            return b""
        if n_samples <= self.n_small and self.tells_in_any_order(n_samples):
            return digest[:PIECE]
        return digest[: 2 * PIECE] if any(digest[PIECE : 2 * PIECE]) else b""

    def tells_in_any_order(self, n_samples: int) -> bool:
        """Whether two batches of this size agree in any order only if one is a copy."""
        return n_samples * self.entropy - math.lgamma(n_samples + 1) / math.log(2) >= _ENOUGH_BITS

    def tells_lines(self, n_shared: int, n_reports: int, n_choices: int) -> bool:
        """Whether a batch shares more lines with other batches than chance explains.

        Parameters
        ----------
        n_shared : int
            Number of its k = `N_LINES` digests of lines that the other batches also have. Fewer
            than half count as none.
        n_reports : int
            Number of reports m of the other batches.
        n_choices : int
            Number of ways in which the other batches could have been chosen.

        Returns
        -------
        bool
            True with a probability of at most 2**-40 for a batch of different users.

        Notes
        -----
        *Proof.* Two reports, or their digests, are equal with a probability of at most c. A batch
        has n reports, and D of them are different. x given users of the batch have the reports of x
        given users of the other batches with a probability of at most c**x, because these pairs are
        independent. So C(n, x) (m c)**x bounds the expected number of choices of x different
        reports that the other batches also have. The digests are keyed, so the k lowest are a
        random sample of the D, and contain x given digests with a probability of C(k, x) / C(D, x).
        The product is at most C(k, x) (2 m c)**x, if half of the reports are different. If many are
        equal by chance, the bound is above 1.
        """
        equal = 2 * max(n_reports, 1) * (2.0**-self.entropy + 2.0 ** (-8 * LINE))
        chosen = math.log2(math.comb(N_LINES, n_shared) * n_choices)
        is_rare = chosen + n_shared * math.log2(equal) <= -_RARE_BITS
        return is_rare and 2 * n_shared >= N_LINES


def n_first(entropy: float) -> int:
    """Return the number of reports, from the beginning of a batch, that its digest uses."""
    return _SHORT_BEGINNING if entropy >= _TELLING_BITS else _BEGINNING


def file_digest_of(sha256: str) -> bytes:
    """Return the digest in a header as bytes; empty if there is no valid digest."""
    try:
        return bytes.fromhex(sha256)
    except ValueError:
        return b""


class KnownLines(NamedTuple):
    """The facts of a collection that readers of posted lines need.

    Parameters
    ----------
    sizes : set of int
        Numbers of lines of the batches of posted lines that were counted.
    secret : bytes
        Key of the digests of lines. Clients do not know it, so they cannot construct lines with low
        digests in order to have honest files refused.
    """

    sizes: set[int]
    secret: bytes


NO_LINES = KnownLines(set(), b"")


def lines_of(digest: bytes, start: int = N_BYTES) -> list[bytes]:
    """Return the digests of lines that the digest of a batch contains."""
    return [digest[i : i + LINE] for i in range(start, len(digest), LINE)]
