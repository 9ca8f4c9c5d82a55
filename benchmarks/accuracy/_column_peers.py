"""Collect several columns with multi-freq-ldpy; run by an interpreter that has it.

Reads one JSON object from the standard input (codes: a NumPy file of one row per user, sizes,
epsilon, way, n_repeats), and writes the processor seconds and the estimates of each collection.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from multi_freq_ldpy.mdim_freq_est import RSpFD_solution, SMP_solution, SPL_solution

WAYS = {
    "SMP": (SMP_solution.SMP_ADP_Client, SMP_solution.SMP_ADP_Aggregator_MI),
    "SPL": (SPL_solution.SPL_ADP_Client, SPL_solution.SPL_ADP_Aggregator_MI),
    "RS+FD": (RSpFD_solution.RSpFD_ADP_Client, RSpFD_solution.RSpFD_ADP_Aggregator_MI),
}


def main() -> None:
    """Read the task, collect, and write the result."""
    task = json.load(sys.stdin)
    codes, sizes = np.load(task["codes"]).tolist(), task["sizes"]
    client, aggregator = WAYS[task["way"]]
    client(codes[0], sizes, len(sizes), task["epsilon"])  # compiles what is compiled
    seconds, estimates = [], []
    for _ in range(task["n_repeats"]):
        start = time.process_time()
        reports = [client(row, sizes, len(sizes), task["epsilon"]) for row in codes]
        found = aggregator(reports, sizes, len(sizes), task["epsilon"])
        seconds.append(time.process_time() - start)
        estimates.append([np.asarray(one, dtype=float).tolist() for one in found])
    print(json.dumps({"seconds": seconds, "estimates": estimates}))


if __name__ == "__main__":
    main()
