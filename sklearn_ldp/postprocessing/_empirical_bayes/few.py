"""EmpiricalBayes for few categories, whose prior is given rather than learnt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._core.noise import Noise, independent_noise
from ..._core.numerics.deconvolution import (
    LaplaceLaw,
    NormalLaw,
    Sample,
    law_of_noise,
    least_level,
    scaled,
)
from ..._core.numerics.dirichlet import FewFrequencies, few_frequencies
from .priors import LearntRow

# Chosen by hand.
_GIVEN, _LEARNT = 12, 24  # up to so many categories the prior is given, and from so many learnt
_MOST_GROWTH = 1000.0  # of the variance, up to all users: beyond, there is next to no noise


class FewRow(NamedTuple):
    """The posterior of one row under the given priors."""

    frequencies: FewFrequencies
    std: float  # the unit of the frequencies
    share: float  # of this posterior in the result; the rest is that under a learnt prior

    def row(
        self, values: np.ndarray, noise: Noise, sample: Sample, learnt: LearntRow | None
    ) -> LearntRow:
        """Return the posterior of a row, averaged with that under a learnt prior."""
        weights = self.frequencies.marginal_prior(sample.theta, sample.top)
        means = self.std * self.frequencies.means
        if learnt is not None:
            weights = self.share * weights + (1 - self.share) * learnt.weights
            means = self.share * means + (1 - self.share) * learnt.means
        support, prior = sample.prior(weights)
        return LearntRow(values, noise, sample, weights, support, prior, means)


def of_few_categories(values: np.ndarray, noise: Noise) -> FewRow | None:
    """Return the posterior of a row that sums to 1, if it has few categories.

    Shapes: values (d,).
    """
    d = len(values)
    share = float(np.clip((_LEARNT - d) / (_LEARNT - _GIVEN), 0, 1))
    if d < 2 or share == 0:
        return None
    std, slope = independent_noise(noise, int(np.argmax(values)), d)
    if slope / least_level(std) > _MOST_GROWTH * std:
        return None
    std = least_level(std)
    law = law_of_noise(noise, d, False)
    law = law if isinstance(law, LaplaceLaw) else NormalLaw(slope / std)
    return FewRow(few_frequencies(scaled(values, std, slope), 1 / std, law), std, share)
