"""
Ask the same users again
========================

Reports of one user in several rounds tell more about them than one report does. A
:class:`~sklearn_ldp.collection.RepeatedClient` limits that: it draws a *permanent* report of their
value, and sends it in some rounds, and a report that depends on nothing in the others. Each of
their reports alone is as private as one of the oracle, and all of them together spend
``epsilon_forever``.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from sklearn_ldp import OLH
from sklearn_ldp.collection import RepeatedClient
from sklearn_ldp.metrics import repeated_collection_risk

oracle = OLH(epsilon=1.0, categories=20)

# %%
# A client keeps its reports, and what they have spent, in a private file. In its fourth round here
# the value changes, which is paid for again.
folder = tempfile.TemporaryDirectory()
memo = os.path.join(folder.name, "state.json")
client = RepeatedClient(oracle, memo, question="browser", epsilon_forever=2.0, most_epsilon=8.0)
for month, value in [("may", 7), ("june", 7), ("july", 7), ("august", 12)]:
    report = client.report(value, collection_round=month)
print(client.history)
folder.cleanup()

# %%
# On the left: somebody sees all reports of a user, and guesses their value. Without a memo, that is
# right for most users after 20 rounds. On the right: the standard error of a rare category's
# estimate, if the estimates of several rounds are averaged. What a permanent report adds by chance
# is the same in each round, so it does not average out.
rounds = np.arange(1, 21)
budgets = {"new reports": None, "forever 3": 3.0, "forever 2": 2.0, "forever 1": 1.0}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
once = oracle.channel()
for label, forever in budgets.items():
    risk = repeated_collection_risk(oracle, len(rounds), forever, random_state=0)
    left.plot(rounds, risk, ".-", label=label)
    share = 0.0  # of the variance of one round that stays
    if forever is not None:
        permanent = OLH(forever, categories=20, hash_range=once.field.order).channel()
        share = float((once.p - once.q) / (permanent.p - once.q)) ** 2
    variances = once.null_variance * (share + (1 - share) / rounds) / 100_000
    right.plot(rounds, np.sqrt(variances), ".-", label=label)
left.set(xlabel="rounds", ylabel="share of users whose value is found", ylim=(0, None))
right.set(xlabel="rounds that are averaged", ylabel="standard error, 100,000 users", ylim=(0, None))
for ax in (left, right):
    ax.set_xticks(range(0, 21, 5))
_ = left.legend()

# %%
# With ``epsilon_forever`` equal to epsilon the same report is sent for ever, and nothing averages
# out. With new reports everything does, and 20 rounds spend 20 times epsilon.
