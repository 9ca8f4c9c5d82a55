"""The package's own checks of estimators, in addition to scikit-learn's.

Third-party estimators can use them. Each check is a function that accepts an estimator, clones it,
and raises AssertionError if it breaks the contract. ``oracle_checks()``, ``table_oracle_checks()``
(for several columns) and ``postprocessor_checks()`` list the checks, ready for
:func:`pytest.mark.parametrize`; `check_oracle`, `check_table_oracle` and `check_postprocessor` run
them all.
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
