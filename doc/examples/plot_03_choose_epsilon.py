"""
Choose epsilon
==============

More privacy means more error, so a search that looks at the error alone takes the largest epsilon
that it is offered. Say how good the answers must be, and take the least epsilon that is enough.

This is a simulation, on public data: a search over epsilon collects from the same users again and
again, which real users would pay for each time. The oracle has a seed, which says so.
"""

import numpy as np
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline

from sklearn_ldp import OLH, Base, NormSub
from sklearn_ldp.datasets import load_us_states
from sklearn_ldp.inspection import ErrorCurveDisplay
from sklearn_ldp.metrics import make_frequency_scorer
from sklearn_ldp.model_selection import least_epsilon

states = load_us_states(n_samples=200_000, random_state=0)
values = np.repeat(states.categories, states.counts)
oracle = OLH(categories=states.categories, random_state=0)
pipe = Pipeline([("oracle", oracle), ("post", NormSub())])
grid = {"oracle__epsilon": [0.25, 0.5, 0.7, 1.0, 1.4, 2.0], "post": [Base(), NormSub()]}

# %%
# The question: in which state do people live? The answer for a state may be wrong by 0.6
# percentage points on average. Each fold estimates from half of the users, and compares with the
# other half.
search = GridSearchCV(
    pipe,
    grid,
    scoring=make_frequency_scorer("mae"),
    refit=least_epsilon(max_error=0.006),
    cv=ShuffleSplit(4, test_size=0.5, random_state=0),
).fit(values)
print(search.best_params_)

# %%
# Scores are negative errors. The results show the error beside what it costs.
results = search.cv_results_
for params, one in zip(results["params"], -results["mean_test_score"], strict=True):
    print(f"epsilon {params['oracle__epsilon']:<4}  {params['post']!r:9}  {one:.3%}")

# %%
# The same results answer other questions without another collection, such as the least epsilon
# whose error is at most twice the least one.
rule = least_epsilon(tolerance=1)
print(results["params"][rule(results)])

# %%
# The error of each post-processor against epsilon, and the choice. A better post-processor needs
# less epsilon for the same error.
display = ErrorCurveDisplay.from_grid_search(search)
_ = display.ax_.axhline(0.006, color="0.5", linestyle="--")  # the largest error we accept
