"""Domains: the public lists of categories, and how values become codes."""

from ._domain import Categories as Categories
from ._domain import Domain as Domain
from ._domain import StringDomain as StringDomain
from ._domain import codes_on_client as codes_on_client
from ._domain import ends_of as ends_of
from ._numbers import NumberDomain as NumberDomain
from ._records import RecordDomain as RecordDomain
from ._strings import StringCoder as StringCoder
