"""
24. A report page of an estimate
================================

A report shows an estimate on one page for readers without Python: the plot, the numbers with their
intervals, the statements that the data support and do not support, and the code that makes the
report again.
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
# ``.save("report.html")`` writes a page without scripts, which phones also show. The command
# ``sklearn-ldp estimate --html report.html`` writes the same page. `describe` returns a dict:
estimate.describe()["may_be_said"]
