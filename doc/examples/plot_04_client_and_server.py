"""
4. Clients, a server, and a checkpoint
======================================

This example follows a collection in production. Clients randomize their own values, and batches of
reports arrive, some of them twice and some of them broken. The server stops, and another server
continues.
"""

import tempfile
from pathlib import Path

import numpy as np

from sklearn_ldp import OLH, NormSub
from sklearn_ldp.collection import Aggregator, RefusedBatchError

browsers = ["chrome", "edge", "firefox", "safari", "other"]

# %%
# Client and server agree on the oracle, epsilon and the domain. A client needs no fit. There is no
# seed here, because the seed would reveal the random bits of each client.
client = OLH(epsilon=1.0, categories=browsers)
server = Aggregator(OLH(epsilon=1.0, categories=browsers), on_repeat="ignore")

rng = np.random.default_rng(0)
for day in ["monday", "tuesday", "wednesday"]:
    users = rng.choice(browsers, size=20_000, p=[0.55, 0.15, 0.1, 0.15, 0.05])
    reports = client.privatize(users)
    server.add(reports, batch_id=day)
server

# %%
# The server counts a repeated batch only once. It rejects a batch under a name that is in use, and
# a batch with a report that no client can send.
server.add(reports, batch_id="wednesday")
more = client.privatize(["chrome", "edge"])
for batch, batch_id in [(more, "monday"), ([[-1, 7]], "thursday")]:
    try:
        server.add(batch, batch_id=batch_id)
    except RefusedBatchError as error:
        print(error)
print(server.summary())

# %%
# A checkpoint is written completely or not at all, and contains no pickle. Another process
# continues from the checkpoint.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "collection.ckpt"
    server.save(path)
    successor = Aggregator.load(path, OLH(epsilon=1.0, categories=browsers))
successor.add(more, batch_id="thursday")

# %%
# The estimate is available at any time. The raw estimate has intervals, and the post-processed
# estimate is a distribution.
raw = successor.estimate_
display = raw.plot()
_ = NormSub().fit_transform(raw).plot(ax=display.ax_)
