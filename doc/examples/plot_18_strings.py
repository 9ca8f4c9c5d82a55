"""
Find strings that nobody lists
==============================

The names in a package's source code are an open domain: nobody can list them beforehand. Each user
here has one of the names in scikit-learn's source, as often as it occurs there. A
:class:`~sklearn_ldp.StringOracle` finds the most frequent ones, and estimates how frequent they
are.
"""

import re
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy
import sklearn

from sklearn_ldp import Domain, StringOracle

N_USERS, LETTERS = 300_000, "abcdefghijklmnopqrstuvwxyz_"


def names_in(package):
    found = Counter()
    for path in sorted(Path(package.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore").lower()
        found.update(name[:14] for name in re.findall("[a-z_]+", text))
    return found


names = names_in(sklearn)
frequencies = np.array(list(names.values())) / names.total()
counts = np.random.default_rng(0).multinomial(N_USERS, frequencies)
print(f"{len(names):,} names")

# %%
# Frequent letters get short codes. How frequent they are is learnt from public texts of another
# origin: the users' own names must not be looked at.
public = Counter(dict.fromkeys([*LETTERS, ""], 1))
for name, n in names_in(scipy).items():
    for letter in [*name, ""]:
        public[letter] += n
oracle = StringOracle(
    epsilon=3.0,
    alphabet=Domain.strings(code=public, max_length=14),
    n_found=16,
    expected_n_users=N_USERS,
    random_state=0,
)

# %%
# The plan says what to expect before any data: how the digits of a name are divided into lengths,
# and from which frequency on a name is found.
plan = oracle.plan()
print(f"digits of GF({plan.hash_range}) in steps of {plan.steps}; threshold {plan.threshold():.4f}")

# %%
# Users who were held out from the search estimate what it has found, and leave out what they do not
# detect. The dots are the true frequencies.
estimate = oracle.fit(list(names), sample_weight=counts).estimate_
low, high = estimate.confidence_interval(0.95, simultaneous=True)
truth = dict(zip(names, counts / N_USERS, strict=True))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
place = np.arange(len(estimate.categories))
left.hlines(place, low[0], high[0], linewidth=4, alpha=0.5, label="95 %, simultaneous")
left.plot([truth.get(name, 0) for name in estimate.categories], place, "k.", label="true")
left.set_yticks(place, estimate.categories)
left.invert_yaxis()
left.set(xlabel="frequency", title="what was found")
left.legend()
grid = np.linspace(0, 0.03, 200)
for n_users in (100_000, 300_000, 1_000_000):
    right.plot(grid, plan.found_probability(grid, n_users), label=f"{n_users:,} users")
right.set(xlabel="frequency of a name", ylabel="probability that it is found", title="the plan")
_ = right.legend()

# %%
# What a search keeps at each length shows why a name was missed: its prefix is not among them.
best = [name for name, _ in Counter(truth).most_common(16)]
print("missed:", [name for name in best if name not in set(estimate.categories)])
print([text for text, _ in oracle.found_prefixes_[0]][:10])
