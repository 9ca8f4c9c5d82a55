"""
1. A first estimate, with intervals
===================================

Twenty thousand residents of the US report the state in which they live. Each device randomizes the
answer. The collector estimates the frequency of each state, with confidence intervals, and then
removes part of the noise.
"""

import numpy as np

from sklearn_ldp import EmpiricalBayes, best_oracle
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.inspection import FrequencyDisplay
from sklearn_ldp.metrics import frequency_mse

states = load_us_states(n_samples=20_000, random_state=0)
truth = states.frequencies

# %%
# There is one value for each user. The domain is public, so you declare it. ``best_oracle`` selects
# the most accurate oracle for epsilon and this domain. With a ``random_state`` this is a
# simulation; without it, all random numbers come from a secure source.
answers = np.repeat(states.categories, states.counts)
oracle = best_oracle(1.0, states.categories).set_params(random_state=1)
raw = oracle.fit_transform(answers)
raw

# %%
# The raw estimate is unbiased and contains its noise, so it has confidence intervals. Some
# estimates of small states are negative.
low, high = raw.confidence_interval(0.95)
covered = np.mean((low[0] <= truth) & (truth <= high[0]))
print(f"{np.sum(raw.values < 0)} of {raw.shape[1]} estimates are negative")
print(f"{covered:.0%} of the intervals contain the truth")

# %%
# The percentage differs between collections. On average over many collections it is at least 95 %:
repeats = oracle.simulate(states.counts, n_repeats=200)
low, high = repeats.confidence_interval(0.95)
covered = np.mean((low <= truth) & (truth <= high))
print(f"{covered:.1%} of the intervals of 200 collections contain the truth")

# %%
# A post-processor makes the values non-negative with sum 1, and more accurate. It uses only the
# estimate, so it costs no privacy. The result has a bias, so it has no intervals of its own.
better = EmpiricalBayes().fit_transform(raw)
for name, estimate in {"raw": raw, "EmpiricalBayes": better}.items():
    error = 100 * np.sqrt(frequency_mse(truth, estimate))
    print(f"{name:14} error {error:.2f} percentage points")

# %%
# A plot invites us to pick the states that stand out. An interval for one state, named beforehand,
# is not valid for the selected states. Therefore the display draws wider, simultaneous intervals:
# in 95 % of collections, all 51 contain the truth.
display = FrequencyDisplay.from_estimate(raw, truth=truth, k=51, orientation="vertical")
FrequencyDisplay.from_estimate(better, ax=display.ax_)
_ = display.ax_.set_title("All 51 states, 20,000 users, epsilon 1")
