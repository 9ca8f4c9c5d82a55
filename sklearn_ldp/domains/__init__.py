"""What a user may answer: the public list of categories, and how values become codes."""

from ._domain import Categories as Categories
from ._domain import Domain as Domain
from ._records import RecordDomain as RecordDomain
