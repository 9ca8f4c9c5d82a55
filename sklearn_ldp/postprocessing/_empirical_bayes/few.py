"""EmpiricalBayes for few categories: the prior is fixed instead of learned from the estimates."""

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
from .priors import LearnedRow

# Chosen by hand.
_GIVEN = 12  # the prior is given up to this number of categories
_LEARNED = 24  # the prior is learned from this number of categories
_MOST_GROWTH = 1000.0  # of the variance, up to frequency 1; if it grows more, noise is negligible


class FewRow(NamedTuple):
    """The posterior of one row of an estimate with few categories, under fixed Dirichlet priors.

    frequencies: the posterior in units of the noise level `std`. share: the weight of this
    posterior, if it is averaged with the posterior under a learned prior.
    """

    frequencies: FewFrequencies
    std: float  # the unit of the frequencies
    share: (
        float  # of this posterior in the result; the posterior under a learned prior has the rest
    )

    def row(
        self, values: np.ndarray, noise: Noise, sample: Sample, learned: LearnedRow | None
    ) -> LearnedRow:
        """Return the weighted average of this posterior and the posterior under a learned prior.

        learned: the result under the learned prior, or None to use this posterior only.
        """
        weights = self.frequencies.marginal_prior(sample.theta, sample.top)
        means = self.std * self.frequencies.means
        if learned is not None:
            weights = self.share * weights + (1 - self.share) * learned.weights
            means = self.share * means + (1 - self.share) * learned.means
        support, prior = sample.prior(weights)
        return LearnedRow(values, noise, sample, weights, support, prior, means)


def few_categories_row(values: np.ndarray, noise: Noise) -> FewRow | None:
    """Return the posterior of one row under the fixed Dirichlet priors.

    Return None if the priors do not apply: if there are 24 or more categories, fewer than 2, or
    practically no noise.
    values: the row, of shape (d,), whose frequencies sum to 1.
    """
    d = len(values)
    share = float(np.clip((_LEARNED - d) / (_LEARNED - _GIVEN), 0, 1))
    if d < 2 or share == 0:
        return None
    std, slope = independent_noise(noise, int(np.argmax(values)), d)
    if slope / least_level(std) > _MOST_GROWTH * std:
        return None
    std = least_level(std)
    known = law_of_noise(noise, d, False)
    law = known if isinstance(known, LaplaceLaw) else NormalLaw(slope / std)
    return FewRow(few_frequencies(scaled(values, std, slope), 1 / std, law), std, share)
