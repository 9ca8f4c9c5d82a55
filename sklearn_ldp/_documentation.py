"""The link to the documentation that notebooks show beside an estimator."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


class Documented:
    """Mixin for scikit-learn's HTML representation: it links to the page of the class.

    The address is the ``Documentation`` entry of ``[project.urls]`` in pyproject.toml, as the
    installed package knows it. Without one there is no link, and none for classes of others.
    """

    @property
    def _doc_link_module(self) -> str:
        return "sklearn_ldp" if _address() else ""

    @property
    def _doc_link_template(self) -> str:
        import sklearn_ldp

        # A class that the top level does not export is documented in its folder.
        is_exported = type(self).__name__ in sklearn_ldp.__all__
        folder = "" if is_exported else f"{type(self).__module__.split('.')[1]}."
        return f"{_address()}/generated/sklearn_ldp.{folder}{{estimator_name}}.html"


@cache
def _address() -> str:
    """Address of the documentation, without a slash at the end; empty if there is none."""
    try:
        urls = metadata("sklearn_ldp").get_all("Project-URL") or []
    except PackageNotFoundError:  # a folder of sources on the path
        urls = []
    entries = dict(url.split(", ", 1) for url in urls)
    return entries.get("Documentation", "").rstrip("/")
