"""Tools to collect reports from real users: files, batches, checkpoints and aggregation."""

from ._core.aggregation._aggregator import Aggregator, CollectionSummary, Refusal
from ._core.aggregation._batches import (
    Caps,
    RefusedBatchError,
    RepeatedBatchError,
    report_configuration,
)
from ._core.aggregation._repeated_client import RepeatedClient, SurveyClient
from ._core.aggregation._report_files import (
    describe_reports,
    read_reports,
    tally_file,
    write_reports,
)
from ._core.aggregation._stream import aggregate, aggregate_dask
from ._core.aggregation._tally import Tally, tally_reports
from ._core.aggregation.checkpoints import CheckpointError
from ._core.aggregation.clients import client_module
from ._core.mechanisms import Protocol, Reports

__all__ = [
    "Aggregator",
    "Caps",
    "CheckpointError",
    "CollectionSummary",
    "Protocol",
    "Refusal",
    "RefusedBatchError",
    "RepeatedBatchError",
    "RepeatedClient",
    "Reports",
    "SurveyClient",
    "Tally",
    "aggregate",
    "aggregate_dask",
    "client_module",
    "describe_reports",
    "read_reports",
    "report_configuration",
    "tally_file",
    "tally_reports",
    "write_reports",
]
