"""The package's own checks, beside scikit-learn's: usable by third-party estimators.

Each check is a function that takes an estimator, clones it, and raises AssertionError where it
breaks the contract. ``oracle_checks()``, ``table_oracle_checks()`` (for several columns) and
``postprocessor_checks()`` list them, ready for :func:`pytest.mark.parametrize`; `check_oracle`,
`check_table_oracle` and `check_postprocessor` run them all.
"""

from ._checks import (
    check_oracle,
    check_postprocessor,
    check_table_oracle,
    exact_report_distribution,
    expected_failed_checks,
    oracle_checks,
    postprocessor_checks,
    table_oracle_checks,
)

__all__ = [
    "check_oracle",
    "check_postprocessor",
    "check_table_oracle",
    "exact_report_distribution",
    "expected_failed_checks",
    "oracle_checks",
    "postprocessor_checks",
    "table_oracle_checks",
]
