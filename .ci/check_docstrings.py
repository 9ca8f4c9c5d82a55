"""Run numpydoc's validation over everything public in sklearn_ldp.

Public is what a module or package without a leading underscore lists in ``__all__``, and the public
methods and properties of such classes that this package itself defines. numpydoc's own command sees
one file at a time and knows neither re-exports nor inherited signatures, hence this script. The
checks are those of ``[tool.numpydoc_validation]`` in pyproject.toml.
"""

import importlib
import inspect
import pkgutil
import sys
import tomllib
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "sklearn_ldp"

sys.path.insert(0, str(ROOT))

from numpydoc.validate import ERROR_MSGS, validate  # noqa: E402


def selected_checks():
    """Codes to report: "all" minus the codes listed, or just the codes listed."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(config["tool"]["numpydoc_validation"]["checks"])
    return set(ERROR_MSGS) - listed if "all" in listed else listed


def public_modules():
    package = importlib.import_module(PACKAGE)
    yield package
    for found in pkgutil.walk_packages(package.__path__, prefix=f"{PACKAGE}."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            yield importlib.import_module(found.name)


def is_ours(obj):
    return (getattr(obj, "__module__", None) or "").split(".")[0] == PACKAGE


def public_objects():
    """Names to validate, each object once, under the first (shortest) name that exports it."""
    seen = set()
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            obj = getattr(module, name)
            if not (inspect.isclass(obj) or inspect.isfunction(obj)):
                continue
            if not is_ours(obj) or obj in seen:
                continue
            seen.add(obj)
            qualified = f"{module.__name__}.{name}"
            yield qualified
            if inspect.isclass(obj):
                yield from (f"{qualified}.{member}" for member in public_members(obj, seen))


def public_members(cls, seen):
    """Public methods and properties of a class that this package defines, bases included."""
    for base in filter(is_ours, cls.__mro__):
        for name, member in vars(base).items():
            function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if is_ours(function) and function not in seen:
                seen.add(function)
                yield name


def main():
    checks = selected_checks()
    n_objects = n_problems = 0
    for name in public_objects():
        n_objects += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # numpydoc only warns of sections it does not know
                result = validate(name)
        except (ValueError, UserWarning) as error:
            print(f"{name}: docstring cannot be parsed: {str(error).splitlines()[0]}")
            n_problems += 1
            continue
        where = Path(result["file"] or "?")
        if where.is_relative_to(ROOT):
            where = where.relative_to(ROOT)
        for code, message in result["errors"]:
            if code in checks:
                print(f"{where}:{result['file_line']}: {name}: {code} {message}")
                n_problems += 1
    print(f"numpydoc: {n_objects} public objects, {n_problems} problems")
    return 1 if n_problems or not n_objects else 0


if __name__ == "__main__":
    sys.exit(main())
