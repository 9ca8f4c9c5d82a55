"""Domains: the public lists of categories, and how values become codes."""

from ._domain import (
    Categories,
    Domain,
    StringDomain,
    bin_widths,
    bounds_of_cells,
    check_raw_values,
    closed_domain,
    codes_on_client,
    columns_of,
    digest_causes,
    encode_columns,
    ends_of,
    has_bins,
    has_cells,
    has_missing_numbers,
    is_log,
    n_clipped,
    word_digests,
)
from ._items import ItemDomain, KeyValueDomain
from ._lists import TELLING_USERS, range_names
from ._numbers import NumberDomain
from ._records import RecordDomain
from ._strings import StringCoder
