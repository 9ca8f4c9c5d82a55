"""Domains: the public lists of categories, and how values become codes."""

from ._domain import (
    Categories,
    Domain,
    StringDomain,
    codes_on_client,
    digest_causes,
    ends_of,
    has_bins,
    is_log,
)
from ._items import ItemDomain, KeyValueDomain
from ._lists import range_names
from ._numbers import NumberDomain
from ._records import RecordDomain
from ._strings import StringCoder
