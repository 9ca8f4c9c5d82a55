"""Print the table of doc/notes/oracles.md.

For each oracle, it contains the ratio of the variance to the lower bound, the number of bits of a
report, and the time to decode reports.

python -m benchmarks.accuracy.oracle_table
"""

from __future__ import annotations

from sklearn_ldp.oracles import compare_oracles

from .._tables import markdown

SETTINGS = [(0.5, 16), (0.5, 1024), (1.0, 16), (1.0, 1024), (2.0, 16), (2.0, 1024), (4.0, 16)]
SETTINGS += [(4.0, 1024)]
BITS = (1.0, 1024)


def table() -> str:
    """Return a row for each oracle, in Markdown.

    Its total variance as a multiple of the minimax bound at each epsilon and d, the bits of a
    report, and the operations to decode a million reports at epsilon 1, d 1,024.
    """
    heads = [f"ε {epsilon:g}, d {d:,}" for epsilon, d in SETTINGS]
    columns = [compare_oracles(*setting)["excess"] for setting in SETTINGS]
    costs, rows = compare_oracles(*BITS), []
    for i, oracle in enumerate(costs["oracle"]):
        excess = [_multiple(column[i]) for column in columns]
        bits, work = costs["report_bits"][i], costs["decode_operations"][i]
        rows.append([f"`{oracle.removesuffix('()')}`", *excess, f"{bits:,}", f"{work:.1e}"])
    return markdown(["oracle", *heads, "bits per report", "decode 10⁶ reports"], rows)


def _multiple(excess: float) -> str:
    """The total variance in units of the bound."""
    return f"{1 + excess:.2f}" if excess < 9 else f"{1 + excess:.0f}"


if __name__ == "__main__":
    print(table())
