"""
3. Choose epsilon
=================

More privacy means more error, so a search that minimizes the error alone always chooses the largest
epsilon. Declare instead how large the error may be, and choose the smallest epsilon that suffices.

This is a simulation on public data. A search over epsilon collects from the same users many times,
and real users would spend epsilon each time. The oracle has a seed because this is a simulation. A
seed repeats its random bits in every fold, so the error bars of the plot are too short. For public
data, omit the seed, or repeat the search with several seeds.
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
# The query is the frequency of each state. Its mean absolute error may be 0.6 percentage points.
# Each fold estimates from half of the users, and compares with the true values of the other half.
search = GridSearchCV(
    pipe,
    grid,
    scoring=make_frequency_scorer("mae"),
    refit=least_epsilon(max_error=0.006),
    cv=ShuffleSplit(4, test_size=0.5, random_state=0),
).fit(values)
print(search.best_params_)

# %%
# Scores are negative errors. The results show the error for each epsilon and post-processor.
results = search.cv_results_
for params, error in zip(results["params"], -results["mean_test_score"], strict=True):
    print(f"epsilon {params['oracle__epsilon']:<4}  {params['post']!r:9}  {error:.3%}")

# %%
# The same results support other rules without another collection. This rule chooses the smallest
# epsilon with at most twice the minimum error.
rule = least_epsilon(tolerance=1)
print(results["params"][rule(results)])

# %%
# The plot shows the error of each post-processor by epsilon, and the choice. A better
# post-processor needs a smaller epsilon for the same error.
display = ErrorCurveDisplay.from_grid_search(search)
display.ax_.axhline(0.006, color="0.5", linestyle="--", label="maximum error")
display.ax_.set(ylabel="mean absolute error", yticks=[0.002, 0.005, 0.01, 0.02])
display.ax_.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
display.ax_.minorticks_off()
_ = display.ax_.legend()
