"""Collecting reports in production: files, batches, checkpoints and aggregation."""

from ._collection._aggregator import Aggregator, CollectionSummary, Refusal
from ._collection._batches import Caps, RefusedBatchError, RepeatedBatchError, report_configuration
from ._collection._repeated_client import RepeatedClient, SurveyClient
from ._collection._report_files import describe_reports, read_reports, tally_file, write_reports
from ._collection._stream import aggregate, aggregate_dask
from ._collection._tally import Tally, tally_reports
from ._collection.checkpoints import CheckpointError
from ._collection.clients import client_module
from ._mechanisms import Protocol, Reports

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
