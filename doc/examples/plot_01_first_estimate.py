"""
A first estimate, with intervals
================================

A million residents of the US say in which state they live, and each of them randomises the answer.
The collector estimates how many people live in each state, with confidence intervals, and makes the
estimate consistent.
"""

import numpy as np

from sklearn_ldp import NormSub, best_oracle
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.metrics import frequency_mse

states = load_us_states(n_samples=1_000_000, random_state=0)
truth = states.counts / states.counts.sum()

# %%
# One value for each user, and a domain that is public, so it is declared. ``best_oracle`` takes the
# most accurate oracle for epsilon and this domain. With ``random_state=0`` this is a simulation;
# without it, all random numbers come from a secure source.
answers = np.repeat(states.categories, states.counts)
oracle = best_oracle(1.0, states.categories).set_params(random_state=0)
raw = oracle.fit_transform(answers)
raw

# %%
# The raw estimate is unbiased and knows its own noise, so it has confidence intervals. Some
# estimates of small states are negative.
low, high = raw.confidence_interval(0.95)
covered = np.mean((low[0] <= truth) & (truth <= high[0]))
print(f"{np.sum(raw.values < 0)} of {raw.shape[1]} estimates are negative")
print(f"{covered:.0%} of the intervals hold the truth")

# %%
# A post-processor turns the values into frequencies: none is negative, and they sum to 1. That
# costs no privacy, because it uses nothing but the estimate. But the result has no intervals.
consistent = NormSub().fit_transform(raw)
for name, estimate in {"raw": raw, "Norm-Sub": consistent}.items():
    print(f"{name:9} mean squared error {frequency_mse(truth, estimate):.2e}")

# %%
# A picture invites us to pick out the states that stand out, and an interval that holds for each
# state by itself does not hold for those. The display therefore draws wider ones: with a
# probability of 95 %, all 51 hold at once.
display = FrequencyDisplay.from_estimate(raw, truth=truth, k=20)
FrequencyDisplay.from_estimate(consistent, ax=display.ax_)
_ = display.ax_.set_title("The 20 largest of 51 states, a million users, epsilon 1")
