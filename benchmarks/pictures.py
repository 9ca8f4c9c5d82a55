"""Draw the pictures of pages, and print the average gain.

python -m benchmarks.pictures

The Python blocks of README.md and of the quick start draw two pictures. The third picture is the
thumbnail of the example on reports. Two pictures show errors from tables of the notes. The average
gain is over simulated collections from the same population as in README.md.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np

from sklearn_ldp import OLH, EmpiricalBayes, best_oracle
from sklearn_ldp.datasets import load_us_states

from . import leaderboard
from ._command import command

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "doc" / "_static"
N_USERS, EPSILON = 20_000, 1.0


def draw_page(page: Path, path: Path, n_blocks: int) -> None:
    """Run the first Python blocks of a page, and save the figure of its variable `display`."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "sklearn_ldp"  # the same picture gives the same file
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    namespace: dict = {}
    for block in blocks[:n_blocks]:
        source = doctest.script_from_examples(block) if ">>>" in block else block
        exec(compile(source, page.name, "exec"), namespace)
    namespace["display"].figure_.savefig(path, metadata={"Date": None})


def draw_report_thumbnail(path: Path) -> None:
    """Draw the first rows of the report that the example of reports makes."""
    states = load_us_states(n_samples=200_000, random_state=0)
    oracle = OLH(epsilon=1.0, categories=states.categories, random_state=0)
    raw = oracle.fit_transform(states.categories, sample_weight=states.counts)
    question = "Where do you live?"
    page = EmpiricalBayes().fit_transform(raw).report(question=question)._repr_html_()
    bars = re.search(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert bars is not None
    rows = bars[0].replace("<svg ", '<svg x="16" y="64" width="608" ', 1)
    rows = re.sub(r'height="\d+"', 'height="376"', rows, count=1)  # the rows below are cut off
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="448" font-size="13" '
        'font-family="sans-serif">\n<rect width="640" height="448" fill="#fff"/>\n'
        f'<text x="16" y="36" font-size="20" font-weight="bold">{question}</text>\n'
        f"{rows}\n</svg>\n",
        encoding="utf-8",
    )


def average_gain(n_repeats: int, seed: int) -> str:
    """Return a sentence on the errors before and after EmpiricalBayes, over many collections."""
    states = load_us_states(n_samples=N_USERS, random_state=0)
    oracle = best_oracle(EPSILON, states.categories).set_params(random_state=seed)
    raw = oracle.simulate(states.counts, n_repeats=n_repeats)
    better = EmpiricalBayes().fit_transform(raw)
    before = np.abs(raw.values - states.frequencies)
    after = np.abs(better.values - states.frequencies)
    errors = [100 * np.mean(np.sqrt(np.mean(error**2, axis=1))) for error in (before, after)]
    n_closer = np.mean(np.sum(after < before, axis=1))
    return (
        f"{n_repeats:,} collections of {N_USERS:,} users at epsilon {EPSILON:g}: the error falls "
        f"from {errors[0]:.2f} to {errors[1]:.2f} percentage points on average, and "
        f"{n_closer:.1f} of {len(states.categories)} estimates come closer to the truth"
    )


def main() -> None:
    """Draw all pictures, and print the average gain."""
    assert __doc__ is not None
    assert __spec__ is not None
    arguments = command(__doc__, __spec__, repeats=1000, seed=0).parse_args()
    draw_page(ROOT / "README.md", STATIC / "first_run.svg", n_blocks=1)
    draw_page(ROOT / "doc" / "quick_start.md", STATIC / "quick_start.svg", n_blocks=2)
    draw_report_thumbnail(STATIC / "report.svg")
    notes = ROOT / "doc" / "notes"
    leaderboard.draw(notes / "choosing.md", STATIC / "regret.svg")
    leaderboard.draw(notes / "leaderboard.md", STATIC / "leaderboard.svg")
    print(average_gain(arguments.repeats, arguments.seed))


if __name__ == "__main__":
    main()
