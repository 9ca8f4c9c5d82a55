"""Robustness: tests that detect fake users, the gain of fake users, and audits of epsilon."""

from ._assigned import assigned_parts, check_assigned
from ._audit import AuditResult, audit_epsilon
from ._poisoning import poisoning_gain
from ._report_tests import ReportTest, hash_function_test, joint_support_test, support_size_test

__all__ = [
    "AuditResult",
    "ReportTest",
    "assigned_parts",
    "audit_epsilon",
    "check_assigned",
    "hash_function_test",
    "joint_support_test",
    "poisoning_gain",
    "support_size_test",
]
