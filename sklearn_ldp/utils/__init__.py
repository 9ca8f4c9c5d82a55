"""The list of all estimators of the package, and checks for estimators of other packages."""

from typing import TYPE_CHECKING

from .._core.common.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from . import discovery as discovery
    from . import estimator_checks as estimator_checks
else:
    __getattr__, __dir__ = _lazy_names(__name__)
