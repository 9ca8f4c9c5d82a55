"""The package's own checks of estimators, in addition to the checks of scikit-learn.

Authors of other packages can use them for their own estimators. Each check is a function that
receives an estimator, uses clones of it, and raises AssertionError if the check fails.
``oracle_checks()``, ``table_oracle_checks()`` (for several columns) and ``postprocessor_checks()``
return the lists of checks, for example for :func:`pytest.mark.parametrize`. `check_oracle`,
`check_table_oracle` and `check_postprocessor` run all checks of a list.
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
