"""
16. Repeated collections from the same users
============================================

Reports of a user in several rounds reveal more than one report. A
:class:`~sklearn_ldp.collection.RepeatedClient` limits this. It draws a *permanent* (memoized)
report of the value and sends it in some rounds; in the other rounds it sends a report that does not
depend on the value. Each single report is as private as a report of the oracle, and all reports
together spend ``epsilon_forever``.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import OLH
from sklearn_ldp.collection import RepeatedClient
from sklearn_ldp.privacy import repeated_collection_risk

oracle = OLH(epsilon=1.0, categories=20)

# %%
# A client stores its reports and the spent epsilon in a private file. In the fourth round of this
# example the value changes, and the client spends epsilon again.
folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "state.json")
client = RepeatedClient(
    oracle, path, question="browser", epsilon_forever=2.0, max_epsilon=8.0
)
for month, value in [("may", 7), ("june", 7), ("july", 7), ("august", 12)]:
    report = client.report(value, collection_round=month)
print(client.history)
folder.cleanup()

# %%
# On the left, an attacker sees all reports of a user and guesses the value. With new reports in
# each round, the guess is correct for most users after 20 rounds. The right plot shows the standard
# error of a rare category, if you average the estimates of several rounds. The noise of a permanent
# report is the same in each round, so averaging does not remove it.
rounds = np.arange(1, 21)
budgets = {"new reports": None} | {
    f"epsilon_forever = {e:g}": e for e in (3.0, 2.0, 1.0)
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
once = oracle.channel()
for label, forever in budgets.items():
    risk = repeated_collection_risk(oracle, len(rounds), forever, random_state=0)
    left.plot(rounds, risk, label=label)
    constant = 0.0  # the part of the variance that is the same in each round
    if forever is not None:
        permanent = OLH(forever, categories=20, hash_range=once.field.order).channel()
        constant = float((once.p - once.q) / (permanent.p - once.q)) ** 2
    variances = once.null_variance * (constant + (1 - constant) / rounds) / 100_000
    right.plot(rounds, 100 * np.sqrt(variances), label=label)
left.set(xlabel="rounds", ylabel="proportion of values found", ylim=(0, None))
right.set(xlabel="rounds that are averaged", ylim=(0, None))
right.set_ylabel("standard error of 100,000 users,\npercentage points")
left.yaxis.set_major_formatter(lambda x, _: f"{100 * x:g} %")
for ax in (left, right):
    ax.set_xticks(range(0, 21, 5))
_ = left.legend()

# %%
# If ``epsilon_forever`` equals epsilon, the client always sends the same report, and averaging
# removes no noise. With new reports averaging removes all noise, but 20 rounds spend 20 times
# epsilon.
