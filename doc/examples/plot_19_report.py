"""
One page that shows an estimate
===============================

Whoever asks for a result wants a page and no array. A report has the picture, the numbers with
their intervals, what may be said and what not, and the lines that make it again.
"""

# %%
from sklearn_ldp import OLH, EmpiricalBayes
from sklearn_ldp.datasets import load_us_states

states = load_us_states(n_samples=200_000, random_state=0)
oracle = OLH(epsilon=1.0, categories=states.categories, random_state=0)
raw = oracle.fit_transform(states.categories, sample_weight=states.counts)
estimate = EmpiricalBayes().fit_transform(raw)
estimate.report(question="Where do you live?")
# sphinx_gallery_thumbnail_path = "_static/report.svg"

# %%
# ``.save("report.html")`` writes it as one page without scripts, which a phone shows, too.
# ``sklearn-ldp estimate --html report.html`` does the same, and `describe` returns a dict:
estimate.describe()["may_be_said"]
