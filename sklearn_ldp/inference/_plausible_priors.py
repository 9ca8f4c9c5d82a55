"""The distributions of the frequencies that an estimate does not contradict."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import betaincinv, ndtr, ndtri

_TOP = 8.0  # null standard deviations: larger frequencies and estimates count as that large
_CONFIDENCE = 0.95  # that the true distribution is among the plausible ones
_STEP = 0.05  # of the estimates at which intervals are tried
_CUTS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)


class PlausiblePriors:
    """The distributions of frequencies that agree with statistics of an estimate.

    The statistics are means over the categories: of the indicators that an estimate is below some
    values, and of first and second moments of estimates clipped at some values. Under the true
    distribution of the frequencies, all of them are within their sampling errors with a
    probability of about 95 % (Bonferroni). Besides, the mean frequency is exactly 1 / d. All
    lengths are in null standard deviations.

    Parameters
    ----------
    x : ndarray of shape (d,)
        Raw estimate; the errors of its categories are taken as independent and normal.
    null_std : float
        Standard deviation of the estimate of a category that nobody has.
    growth : float
        How much the variance grows with the frequency.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes,)
        Estimates at which intervals are tried.
    theta : ndarray of shape (n_theta,)
        Frequencies that the distributions may have. The last ones stand for all larger ones.
    """

    def __init__(self, x: np.ndarray, null_std: float, growth: float) -> None:
        d, mean = len(x), 1 / (len(x) * null_std)
        z = np.clip(x / null_std, -_TOP, None)
        self.nodes = np.arange(-6, 2 * _TOP, _STEP)
        grid = [np.arange(0, 2, 0.05), np.arange(2, 4, 0.1), np.arange(4, 1.5 * _TOP + 0.1, 0.5)]
        theta = np.unique(np.concatenate([*grid, [mean]]))
        self.theta = theta[theta <= 1 / null_std]
        std = np.sqrt(np.maximum(1 + growth / null_std * self.theta, 1e-4))

        def below(values):
            return ndtr((values - self.theta[:, None]) / std[:, None])

        edges = below(self.nodes[1:] - _STEP / 2)
        self._chances = np.diff(edges, axis=1, prepend=0.0, append=1.0)
        moments = [lambda z, top=top: (np.minimum(z, top) - mean) ** 2 for top in (2, 4, _TOP)]
        moments += [lambda z, top=top: np.minimum(z, top) for top in (2, 4)]
        cuts = np.array(_CUTS)
        found = np.array([moment(z) for moment in moments])
        tail = (1 - _CONFIDENCE) / 2 / (len(moments) + len(cuts))
        spread = ndtri(1 - tail) * found.std(axis=1) / np.sqrt(d)
        least, most = _mean_chance(np.sum(z <= cuts[:, None], axis=1), d, tail)
        middle = np.append(found.mean(axis=1), (least + most) / 2)
        spread = np.append(spread, (most - least) / 2)
        expected = [self._chances @ moment(self.nodes) for moment in moments]
        rows = np.vstack([*expected, below(cuts).T])
        scale = np.where(spread > 0, spread, 1.0)
        last = [np.minimum(self.theta, _TOP), np.ones(len(self.theta))]
        self._constraints = LinearConstraint(
            np.vstack([rows / scale[:, None], *last]),
            np.concatenate([(middle - spread) / scale, [-np.inf, 1]]),
            np.concatenate([(middle + spread) / scale, [mean * (1 + 1e-9), 1]]),
        )

    def worst_miss(self, low: np.ndarray, high: np.ndarray) -> float:
        """Return the largest share of categories that intervals miss on average.

        Parameters
        ----------
        low, high : ndarray of shape (n_nodes,)
            The ends of the intervals of categories whose estimates are the `nodes`.

        Returns
        -------
        float
            The maximum over the plausible distributions; 1 if there are none.
        """
        theta = self.theta[:, None]
        missed = (theta < low - 1e-9) | (theta > high + 1e-9)
        chance = np.sum(self._chances * missed, axis=1)
        # A linear program; of SciPy's two ways to HiGHS this one has far less overhead.
        found = milp(
            -chance,
            constraints=self._constraints,
            bounds=Bounds(0, 1),
            options={"presolve": False},
        )
        return -found.fun if found.status == 0 else 1.0


def _mean_chance(counts, d, tail):
    """Return exact limits of the mean chance of d events, of which `counts` happened.

    They are those of Clopper and Pearson, which only get safer if the chances differ (Hoeffding
    1956).
    """
    with np.errstate(invalid="ignore"):
        least = betaincinv(counts, d - counts + 1.0, tail)
        most = betaincinv(counts + 1.0, d - counts, 1 - tail)
    return np.where(counts > 0, least, 0.0), np.where(counts < d, most, 1.0)
