"""Random sampling plus fake data: one true report, hidden among reports on made-up values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from scipy import sparse

from .._noise import ChannelNoise
from ._channel import Channel
from ._coins import TWO_64, Coins
from ._covariance import inner, outer
from ._several import Several

Pairs = list[tuple[np.ndarray, np.ndarray]]


class FakedChannel(Channel):
    """The law of one of J parts: the channel's true report in one case of J, else a fake report.

    With b_v the probability that the report of a user who does not have the category v supports v,
    and ``g = (p - q) / J``, a report supports v with probability ``b_v + g f_v``. If b is the same
    number for all categories, this is a pure channel.

    Parameters
    ----------
    channel : Channel
        The channel of true reports. Its joint support must be known.
    n_parts : int
        The number J of parts.
    fakes : "uniform", "zeros" or sequence of int
        The law of fake values: uniform, or the probability of each, over 2**64, with the sum 2**64.
        "zeros" makes reports of no value at all: bits that are all 0 before they are randomised.
    is_randomised : bool
        Whether the fake value is randomised by the channel. Otherwise it is the report.
    """

    def __init__(
        self, channel: Channel, n_parts: int, fakes: str | Sequence[int], is_randomised: bool
    ) -> None:
        self.channel, self.n_parts = channel, n_parts
        self.fakes = fakes if isinstance(fakes, str) else tuple(fakes)
        self.is_randomised = is_randomised
        self.report_bytes = channel.report_bytes
        p, q, d = channel.p, channel.q, channel.n_categories
        if self.fakes == "zeros":
            mean_support = q
        else:
            mean_support = q + (p - q) / d if is_randomised else Fraction(1, d)
        others = (n_parts - 1) * mean_support
        super().__init__(d, (p + others) / n_parts, (q + others) / n_parts)

    @property
    def is_pure(self) -> bool:
        """Whether fake reports support all categories alike."""
        return isinstance(self.fakes, str)

    @property
    def _prior(self) -> np.ndarray:
        """The frequencies of fake values; all 0 where there are none."""
        if isinstance(self.fakes, str):
            share = 0.0 if self.fakes == "zeros" else 1 / self.n_categories
            return np.full(self.n_categories, share)
        return np.array([float(Fraction(share, TWO_64)) for share in self.fakes])

    @property
    def is_informative(self):
        return self.channel.is_informative

    @property
    def configuration(self):
        fakes = self.fakes if isinstance(self.fakes, str) else ", ".join(map(str, self.fakes))
        return {**self.channel.configuration, "n_parts": self.n_parts, "fake_data": fakes}

    # -- what is as in a true report ----------------------------------------------------------
    @property
    def report_fields(self):
        return self.channel.report_fields

    @property
    def report_bits(self):
        return self.channel.report_bits

    def supports(self, reports, codes):
        return self.channel.supports(reports, codes)

    def check_reports(self, reports):
        return self.channel.check_reports(reports)

    def count_support(self, reports):
        return self.channel.count_support(reports)

    def tally(self, reports):
        return self.channel.tally(reports)

    @property
    def tally_size(self):
        return self.channel.tally_size

    @property
    def tally_sum(self):
        return self.channel.tally_sum

    @property
    def largest_support(self):
        return self.channel.largest_support

    def decode(self, tallies):
        return self.channel.decode(tallies)

    def decode_operations(self, n_samples):
        return self.channel.decode_operations(n_samples)

    # -- reports ------------------------------------------------------------------------------
    def fake(self, n: int, coins: Coins) -> np.ndarray:
        """Draw fake reports.

        Parameters
        ----------
        n : int
            Number of reports.
        coins : Coins
            Source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            The reports.
        """
        if self.fakes == "zeros":
            zero = int(self.channel.q * TWO_64)
            return coins.bernoulli(zero, (n, self.n_categories)).view(np.uint8)
        if isinstance(self.fakes, str):
            values = coins.integers(self.n_categories, n)
        else:
            values = coins.choice(list(accumulate(self.fakes)), n)
        return self.channel.privatize(values, coins) if self.is_randomised else values

    def privatize(self, codes, coins):
        is_true = coins.integers(self.n_parts, len(codes)) == 0
        return self.of_truth(codes, is_true, coins)

    def of_truth(self, codes: np.ndarray, is_true: np.ndarray, coins: Coins) -> np.ndarray:
        """Randomise some of the codes, and make fake reports in place of the others.

        Parameters
        ----------
        codes : ndarray of shape (n,)
            The users' categories.
        is_true : ndarray of shape (n,)
            Whether a report is made of the user's category.
        coins : Coins
            Source of randomness.

        Returns
        -------
        ndarray of shape (n,) or (n, width)
            The reports.
        """
        true = self.channel.privatize(codes[is_true], coins)
        fake = self.fake(int(np.sum(~is_true)), coins)
        reports = np.empty((len(codes), *true.shape[1:]), dtype=true.dtype)
        reports[is_true], reports[~is_true] = true, fake
        return reports

    def simulate(self, counts, n_repeats, rng):
        n, d = int(np.sum(counts)), self.n_categories
        rows = []
        for n_true in rng.binomial(n, 1 / self.n_parts, n_repeats):
            asked = rng.multivariate_hypergeometric(counts, n_true)
            true = self.channel.simulate(asked, 1, rng)[0]
            if self.fakes == "zeros":
                fake = rng.binomial(n - n_true, float(self.channel.q), d)
            else:
                fake = rng.multinomial(n - n_true, self._prior / self._prior.sum())
                if self.is_randomised:
                    fake = self.channel.simulate(fake, 1, rng)[0]
            rows.append(true + fake)
        return np.array(rows)

    # -- estimates and their noise ------------------------------------------------------------
    @property
    def _null_support(self) -> np.ndarray:
        """b: probability that the report of a user without a category supports it, for each."""
        p, q, fake = float(self.channel.p), float(self.channel.q), self._prior
        if self.fakes == "zeros" or self.is_randomised:
            fake = q + (p - q) * fake
        return (q + (self.n_parts - 1) * fake) / self.n_parts

    @property
    def _gain(self) -> float:
        """g: how much more often the report of a user with the category supports it."""
        return float(self.channel.p - self.channel.q) / self.n_parts

    def noise(self, n_samples):
        kind = ChannelNoise if self.is_pure else _FakedNoise
        return kind(float(self.p), float(self.q), n_samples, self)

    def debias(self, shares: np.ndarray) -> np.ndarray:
        """Return unbiased frequencies from the share of reports that support each category.

        Parameters
        ----------
        shares : ndarray of shape (..., d)
            Support counts over the number of reports.

        Returns
        -------
        ndarray of the same shape
            The frequencies.
        """
        return (shares - self._null_support) / self._gain

    @property
    def null_variance(self) -> float:
        """Variance of the estimate of a category that nobody has, for one user: the mean of all."""
        b = self._null_support
        return float(np.mean(b * (1 - b))) / self._gain**2

    def variances(self, frequencies):
        b, g = self._null_support, self._gain
        return (b * (1 - b) + frequencies * g * (1 - g - 2 * b)) / g**2

    @property
    def has_exact_covariance(self):
        return True

    def _moments(self, frequencies: np.ndarray) -> tuple[np.ndarray, Pairs]:
        """The covariance matrix for one user: a diagonal, and products of pairs of vectors.

        The report of a user of category x supports v and w at once with the probability
        ``A(x)_vw / J + (1 - 1 / J) F_vw``, A for true and F for fake reports, and each of them with
        ``s_x = b + g e_x``. So the matrix is the mean over the users of that first matrix, less
        the mean of ``s_x s_x'``, both over ``g**2``.
        """
        f, b, g, share = frequencies, self._null_support, self._gain, 1 / self.n_parts
        of_true, line_true = self._second_moments(f)
        if self.fakes == "zeros":
            q = float(self.channel.q)
            of_fake, line_fake = np.full(len(f), q - q * q), np.full(len(f), q * q / 2)
        elif self.is_randomised:
            of_fake, line_fake = self._second_moments(self._prior)
        else:
            of_fake, line_fake = self._prior, np.zeros(len(f))
        diagonal = share * of_true + (1 - share) * of_fake - g * g * f
        line, ones = share * line_true + (1 - share) * line_fake, np.ones(len(f))
        pairs = [(line, ones), (ones, line), (-b, b + g * f), (-g * f, b)]
        return diagonal / g**2, [(x / g**2, y) for x, y in pairs]

    def _second_moments(self, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """D and a, so that the mean of A(x) over true reports is ``diag(D) + a 1' + 1 a'``."""
        joint = self.channel.joint_support
        assert joint is not None
        p, q = float(self.channel.p), float(self.channel.q)
        slope = (joint.own - joint.other) * frequencies
        diagonal = q + (p - q) * frequencies - joint.other - 2 * slope
        return diagonal, joint.other / 2 + slope

    def covariances(
        self, rows: sparse.csr_array, frequencies: np.ndarray, *, diagonal: bool
    ) -> np.ndarray:
        of_categories, pairs = self._moments(frequencies)
        result = inner(rows.multiply(of_categories).tocsr(), rows, diagonal)
        return result + sum(outer(rows @ x, rows @ y, diagonal) for x, y in pairs)

    covariances.__doc__ = Channel.covariances.__doc__

    def covariance_product(self, vector: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        of_categories, pairs = self._moments(frequencies)
        return of_categories * vector + sum(x * (y @ vector) for x, y in pairs)

    covariance_product.__doc__ = Channel.covariance_product.__doc__

    def for_enumeration(self) -> FakedChannel:
        """Return the same law over a channel with few enough outcomes to list them all."""
        return FakedChannel(
            self.channel.for_enumeration(), self.n_parts, self.fakes, self.is_randomised
        )


class _FakedNoise(ChannelNoise):
    """The noise where fake reports support some categories more often than others."""

    __hash__ = ChannelNoise.__hash__

    @property
    def support_law(self):
        """None: each category has its own p and q."""
        return None

    def debias(self, support_counts):
        shares = np.asarray(support_counts) / np.asarray(self.n_samples)[..., None]
        return self.channel.debias(shares)


class FakeData(Several):
    """Report on one part, drawn in secret with equal probabilities, and make up all others.

    The probability of a report y from a user with the record x is
    ``prod_i F_i(y_i) * (1 / J) sum_j M_j(y_j | x_j) / F_j(y_j)``, where M are the laws of true
    reports and F those of fake ones. If records x and x' differ in all parts, there is a report
    with ``M_j(y_j | x_j) = exp(epsilon) M_j(y_j | x'_j)`` in each of them; so that of the whole is
    exp(epsilon), too, whatever F is. That nobody knows which part is true hides nothing: the
    collection has the epsilon of the parts' channels, for whole records.

    Parameters
    ----------
    parts : sequence of FakedChannel
        The law of each part.
    """

    parts: tuple[FakedChannel, ...]

    def __init__(self, parts: Sequence[FakedChannel]) -> None:
        super().__init__(parts, [TWO_64] * len(parts))

    def privatize(self, codes, coins):
        true = coins.integers(len(self.parts), len(codes))
        own = [
            part.of_truth(codes[:, j], true == j, coins).reshape(len(codes), -1)
            for j, part in enumerate(self.parts)
        ]
        return np.concatenate(own, axis=1).astype(np.int64)

    def for_enumeration(self) -> FakeData:
        """Return the same collection of channels with few enough outcomes to list them all."""
        return FakeData([part.for_enumeration() for part in self.parts])

    def report_entropy(self, order=1):
        return 0.0
