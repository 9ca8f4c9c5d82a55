"""Collecting reports in production: files, batches, checkpoints and aggregation."""

from ..protocols import Protocol
from ._aggregator import Aggregator, CollectionSummary, Refusal
from ._assigned import assigned_parts, check_assigned
from ._batches import RefusedBatchError, RepeatedBatchError, report_configuration
from ._caps import Caps
from ._dask import aggregate_dask
from ._pair_tests import joint_support_test
from ._poisoning import poisoning_gain
from ._report_files import describe_reports, read_reports, tally_file, write_reports
from ._report_tests import ReportTest, hash_function_test, support_size_test
from ._stream import aggregate
from ._survey_client import SurveyClient
from ._tally import Tally, tally_reports
from .checkpoints import CheckpointError

__all__ = [
    "Aggregator",
    "Caps",
    "CheckpointError",
    "CollectionSummary",
    "Protocol",
    "Refusal",
    "RefusedBatchError",
    "RepeatedBatchError",
    "ReportTest",
    "SurveyClient",
    "Tally",
    "aggregate",
    "aggregate_dask",
    "assigned_parts",
    "check_assigned",
    "describe_reports",
    "hash_function_test",
    "joint_support_test",
    "poisoning_gain",
    "read_reports",
    "report_configuration",
    "support_size_test",
    "tally_file",
    "tally_reports",
    "write_reports",
]
