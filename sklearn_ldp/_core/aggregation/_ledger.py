"""The ledger of a collection: the list of counted batches, with digests that identify copies."""

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
    """One batch in a ledger: its position, its number of reports, and its digest.

    The position is the number of batches that were added before. The digest is empty if it is
    unknown.
    """

    place: int
    n_reports: int
    digest: bytes


class Ledger(Mapping[str, int]):
    """An immutable mapping from the ids of the counted batches to their numbers of reports.

    A ledger also stores digests of the batches. If a batch has no digest, its reports are not
    compared with the reports of other batches with the same id. If `rule` is None, the ledger
    compares only batches with equal ids, so it does not detect a copy under another id.
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
        """Return the digest of a batch. It is empty if the batch has no digest."""
        return self._by_id[batch].digest if batch in self else b""

    @property
    def digests(self) -> dict[str, bytes]:
        """Return a dict from the ids of batches to their digests.

        It lacks batches without a digest.
        """
        return {batch: digest for batch in self if (digest := self._by_id[batch].digest)}

    def without_order(self, rule: CopyRule | None = None) -> Ledger:
        """Return a copy of the ledger without digests that could reveal the order of the users.

        The digest of the first reports depends on their order. An attacker who knows nearly all
        reports of an array, or of lines that clients have posted, could find their order by trying.
        This digest is removed for such batches. Other files were shuffled before, so it is kept.
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
        """Return the ids of the batches of another ledger that are also in this ledger.

        Raise RepeatedBatchError if a batch has different reports in the two ledgers, or if it may
        have different reports.
        """
        seen = [batch for batch in other if batch in self]
        for batch in seen:
            known, offered = self.digest(batch), other.digest(batch)
            if known and offered and known[:PIECE] != offered[:PIECE]:
                text = f"This collection has counted batch {batch!r} before, with other reports."
                remedy = "Ask the sender. If the new reports are also valid, give them a new id."
                raise RepeatedBatchError(f"{text} {remedy}", batch)
            is_telling = self._rule is None or self._rule.tells_in_any_order(self[batch])
            if batch.startswith(POSTED) and not is_telling and _is_namesake(known, offered):
                text = (
                    f"batch {batch!r}, or a batch with as many reports of each value, before, in a "
                    "file of this name in another folder. Leave it out if it is a copy, otherwise "
                    "give the file another name"
                )
                raise _counted(batch, text)
        return seen

    def has_file(self, batch: str, file_sha256: str) -> bool:
        """Return whether this batch was counted from a file with this digest in its header."""
        if batch not in self:
            return False
        digest = self.digest(batch)
        file_digest = file_digest_of(file_sha256)[:PIECE]
        return not digest or (len(file_digest) == PIECE and digest[_FILE] == file_digest)

    def refuse_grown(self, batch: str, prefixes: Iterable[str]) -> None:
        """Raise RepeatedBatchError if the first lines of a file were already counted as a batch.

        `prefixes` are the ids that the file had when it was shorter.
        """
        known = next(filter(self.__contains__, prefixes), None)
        if known is not None:
            text = (
                f"the first {self[known]} lines of batch {batch!r} before, as batch {known!r}. "
                "Write the lines after them to a file with another name"
            )
            raise _counted(batch, text)

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
        """Raise RepeatedBatchError if the reports of a batch were already counted under another id.

        For lines that clients have posted, raise it if most of the lines were already counted.
        """
        # Without digests of lines, it is unknown whether a file of posted lines has grown.
        place = digest[_FILE] if batch.startswith(POSTED) and len(digest) == N_BYTES else b""
        if (known := self._by_place.get(place)) is not None and known in self:
            text = (
                f"a file with the path of batch {batch!r} before, as batch {known!r}, and a tally "
                "does not show whether the file has grown"
            )
            raise _counted(batch, text)
        if self._rule is None:
            return
        original = self._by_key.get(self._rule.key(digest, n_reports))
        if original is not None:
            text = f"the reports of batch {batch!r} before, as batch {original!r}"
            remedy = "each report counts once. Leave it out (simulations: use another seed)."
            raise RepeatedBatchError(f"This collection has counted {text}: {remedy}", batch)
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
    """Return whether two batches with the same id came from files in different places.

    Also return True if one of the places is unknown.
    """
    return bool(known and offered) and not (any(known[_FILE]) and known[_FILE] == offered[_FILE])


def repeated(batches: list[str], n_others: int = 0) -> RepeatedBatchError:
    """Return the error for batches that were already counted.

    `n_others` is the number of other batches in the same tally, which cannot be separated from
    them.
    """
    more = f" and {len(batches) - 1} more" if len(batches) > 1 else ""
    remedy = 'Leave the batch out, or pass on_repeat="ignore" (--on-repeat ignore).'
    if n_others:
        remedy = (
            f"Its tally also contains {n_others} other batches, which cannot be separated from it. "
            "Pass the files of all servers to one call of `aggregate`, or merge one tally per file "
            "(tally_file)."
        )
    text = f"batch {batches[0]!r}{more} before: each report counts once"
    return RepeatedBatchError(f"This collection has counted {text}. {remedy}")


def _counted(batch: str, description: str) -> RepeatedBatchError:
    """Return the error for lines of which some may have been counted already.

    The package cannot decide which lines are repeats.
    """
    text = f"This collection has counted {description}. Each report counts once."
    remedy = "Count a file only when it is complete, and write each batch to its own file."
    return RepeatedBatchError(f"{text} {remedy}", batch)


class CopyRule(NamedTuple):
    """The rule that decides whether a batch is a copy of another batch.

    Parameters
    ----------
    entropy : float
        Lower bound on the collision entropy of a report in bits, see :class:`Mechanism`.
    n_small : int
        Maximum number of reports of a batch whose digest is computed from its sorted reports
        instead of their sums.

    Notes
    -----
    *Proof of the bound.* Let P_v be the distribution of the report of a user with value v, and let
    its collision entropy be at least H for every v. Then the sum of P_v(r)**2 over all reports r is
    at most 2**-H. The reports of two independent users with the values v and w are equal with
    probability sum_r P_v(r) P_w(r). This is also at most 2**-H, by the Cauchy-Schwarz inequality.
    Users randomize independently. So the first m reports of two batches are equal, position by
    position, with a probability of at most 2**-(m H). This is true for all values, and for any
    order that does not depend on the reports. The n reports of two batches are equal in *some*
    order with a probability of at most n! 2**-(n H), because there are n! orders.

    Sums have no such bound, even if two reports are rarely equal. For example, the number of
    reports that support a category is the same in two batches of n users with a probability of the
    order of 1 / sqrt(n). So equal sums are not evidence of a copy.
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
        """Return the bytes that identify the reports of a batch, so that copies can be found.

        Parameters
        ----------
        digest : bytes
            The digest of the batch from `Beginning.digest`; empty if it is unknown.
        n_samples : int
            Number of reports in the batch.

        Returns
        -------
        bytes
            The identifier. Two batches of different users have the same identifier with a
            probability of at most 2**-128. It is either the digest of the sorted reports, or the
            digests of the sums and of the first reports in their order. It is empty if the batch
            has too few reports for this probability.
        """
        in_order = min(n_samples, n_first(self.entropy)) * self.entropy
        if not digest or in_order < _ENOUGH_BITS:
            return b""
        if n_samples <= self.n_small and self.tells_in_any_order(n_samples):
            return digest[:PIECE]
        return digest[: 2 * PIECE] if any(digest[PIECE : 2 * PIECE]) else b""

    def tells_in_any_order(self, n_samples: int) -> bool:
        """Return whether the sorted reports of a batch of this size identify the batch.

        Two batches of different users then have equal sorted reports with a probability of at most
        2**-128.
        """
        return n_samples * self.entropy - math.lgamma(n_samples + 1) / math.log(2) >= _ENOUGH_BITS

    def tells_lines(self, n_shared: int, n_reports: int, n_choices: int) -> bool:
        """Return whether a batch shares more lines with other batches than is likely by chance.

        Parameters
        ----------
        n_shared : int
            Number of digests of lines that the batch shares with other batches. A batch has k =
            `N_LINES` digests. If fewer than half of them are shared, the result is False.
        n_reports : int
            Total number m of reports in the other batches.
        n_choices : int
            Number of ways in which the other batches can be chosen from all counted batches.

        Returns
        -------
        bool
            Whether lines are repeated. For a batch of different users, the result is True with a
            probability of at most 2**-40.

        Notes
        -----
        *Proof.* The reports of two users, or the digests of these reports, are equal with a
        probability of at most c. A batch has n reports, of which D are different. Choose x users of
        the batch, and a user of the other batches for each of them. The x pairs have equal reports
        with a probability of at most c**x, because the pairs are independent. So C(n, x) (m c)**x
        bounds the expected number of sets of x different reports that the other batches also
        contain. The digests are keyed, so the k lowest digests are a random sample of the D
        digests. The sample contains a fixed set of x digests with a probability of C(k, x) / C(D,
        x). The product of the two terms is at most C(k, x) (2 m c)**x, if at least half of the
        reports are different. If many reports are equal by chance, c is so large that the bound is
        above 1.
        """
        equal = 2 * max(n_reports, 1) * (2.0**-self.entropy + 2.0 ** (-8 * LINE))
        chosen = math.log2(math.comb(N_LINES, n_shared) * n_choices)
        is_rare = chosen + n_shared * math.log2(equal) <= -_RARE_BITS
        return is_rare and 2 * n_shared >= N_LINES


def n_first(entropy: float) -> int:
    """Return the number of reports from which the digest of a batch's first reports is computed.

    `entropy` is the collision entropy of a report in bits.
    """
    return _SHORT_BEGINNING if entropy >= _TELLING_BITS else _BEGINNING


def file_digest_of(sha256: str) -> bytes:
    """Return the hexadecimal digest in a header as bytes.

    The result is empty if the text is not a valid digest.
    """
    try:
        return bytes.fromhex(sha256)
    except ValueError:
        return b""


class KnownLines(NamedTuple):
    """Facts about counted files of posted lines, which readers of such files need.

    Posted lines are lines of JSON, each with a configuration and a report, as clients post them.

    Parameters
    ----------
    sizes : set of int
        Numbers of lines of the batches of posted lines that were counted.
    secret : bytes
        Key of the digests of lines. Clients do not have it. So a client cannot choose lines with
        low digests, which would make the collection refuse files of honest clients.
    """

    sizes: set[int]
    secret: bytes


NO_LINES = KnownLines(set(), b"")


def lines_of(digest: bytes, start: int = N_BYTES) -> list[bytes]:
    """Return the digests of single lines, which are the end of the digest of a batch.

    Only batches of lines that clients have posted have such digests. `start` is the position of the
    first of them.
    """
    return [digest[i : i + LINE] for i in range(start, len(digest), LINE)]
