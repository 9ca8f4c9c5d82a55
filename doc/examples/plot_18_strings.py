"""
18. Find frequent strings without a list
========================================

The names in a package's source code are an open domain: you cannot list them beforehand. Each user
in this example has one of the names in scikit-learn's source, drawn by its frequency there. A
:class:`~sklearn_ldp.StringOracle` finds the most frequent names and estimates their frequencies.
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
    """Count the names in the source files of a package."""
    counts = Counter()
    for path in sorted(Path(package.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore").lower()
        counts.update(name[:14] for name in re.findall("[a-z_]+", text))
    return counts


names = names_in(sklearn)
frequencies = np.array(list(names.values())) / names.total()
counts = np.random.default_rng(0).multinomial(N_USERS, frequencies)
print(f"{len(names):,} names")

# %%
# Frequent letters get short codes. The frequencies of letters come from public texts of another
# package, because the names of the users are private.
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
# The plan shows the division of the digits of a name into prefixes, and the frequency at which the
# search finds a name. It needs no data.
plan = oracle.plan()
print(
    f"digits of GF({plan.hash_range}) in steps of {plan.steps}; threshold {plan.threshold():.4f}"
)

# %%
# Users who were held out from the search estimate the frequencies of the names, and names that they
# do not detect are removed.
estimate = oracle.fit(list(names), sample_weight=counts).estimate_
low, high = estimate.confidence_interval(0.95, simultaneous=True)
truth = dict(zip(names, counts / N_USERS, strict=True))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
place = np.arange(len(estimate.categories))
left.hlines(place, low[0], high[0], linewidth=4, alpha=0.4, label="95 %, simultaneous")
left.plot(estimate.values[0], place, "o", label="estimate")
left.plot(
    [truth.get(name, 0) for name in estimate.categories],
    place,
    "k|",
    markersize=12,
    label="truth",
)
left.set_yticks(place, estimate.categories)
left.invert_yaxis()
left.set(xlabel="frequency", xlim=(0, 0.05), title="names in the estimate")
left.legend(loc="lower right")
grid = np.linspace(0, 0.03, 200)
for n_users in (100_000, 300_000, 1_000_000):
    found = plan.found_probability(grid, n_users)
    right.plot(grid, found, markevery=20, label=f"{n_users:,} users")
right.set(
    xlabel="frequency of a name", ylabel="probability to find it", title="the plan"
)
for axis in (left.xaxis, right.xaxis, right.yaxis):
    axis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
_ = right.legend()

# %%
# The prefixes of each length show why the search missed a name: its prefix was not kept.
best = [name for name, _ in Counter(truth).most_common(16)]
print("missed:", [name for name in best if name not in set(estimate.categories)])
print([text for text, _ in oracle.found_prefixes_[0]][:10])
