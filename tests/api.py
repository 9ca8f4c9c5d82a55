"""The public interface as text: `make api` writes it to tests/data/api.txt.

One line a name, so that a change of it is read in a review and merges easily. A member that a class
has from a public base of ours, with the same signature, is not repeated.
"""

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import sklearn_ldp

PATH = Path(__file__).parent / "data" / "api.txt"


def public_modules():
    """Every module without an underscore that has an `__all__`, the package first."""
    names = [info.name for info in pkgutil.walk_packages(sklearn_ldp.__path__, "sklearn_ldp.")]
    names = ["sklearn_ldp", *(name for name in names if "._" not in name)]
    return [name for name in names if getattr(import_module(name), "__all__", None)]


def signature(function):
    """Parameters with kinds and defaults, without types, which a release may make more precise."""
    found = inspect.signature(function)
    shown = []
    for one in found.parameters.values():
        default = one.default
        if isinstance(default, type) or inspect.isfunction(default):
            default = default if default is one.empty else NamedDefault(default.__qualname__)
        elif " at 0x" in repr(default):
            default = NamedDefault(f"<{type(default).__name__}>")
        shown.append(one.replace(annotation=one.empty, default=default))
    return str(found.replace(parameters=shown, return_annotation=found.empty))


class NamedDefault:
    """A default value that is shown by its name, since its repr tells where it is in memory."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


def members(cls):
    """Public members of a class that are the package's, and its constructor, each as text."""
    found = {}
    for base in reversed(cls.__mro__):
        is_ours = base.__module__.split(".")[0] == cls.__module__.split(".")[0]
        if is_ours and base.__name__ != "NamesParameters":  # whose __new__ only refuses
            for name, member in vars(base).items():
                is_made = name.startswith("set_") and name.endswith("_request")  # by scikit-learn
                if name in ("__init__", "__new__") or not (name.startswith("_") or is_made):
                    found[name] = described(member)
    return found


def described(member):
    """A member's kind and signature."""
    if isinstance(member, classmethod | staticmethod):
        return f"{signature(member.__func__)} {type(member).__name__}"
    if inspect.isfunction(member):
        return signature(member)
    return ": property" if hasattr(type(member), "__get__") else ": attribute"


def lines(modules=None):
    """The lines of the interface of these modules."""
    modules = public_modules() if modules is None else modules
    objects = [
        (f"{name}.{one}", getattr(import_module(name), one))
        for name in modules
        for one in sorted(import_module(name).__all__)
    ]
    homes, written = {}, []
    for path, one in objects:
        home = homes.setdefault(id(one), path)
        if home != path:
            written.append(f"{path} = {home}")
        elif isinstance(one, type):
            bases = [base for base in one.__mro__[1:] if any(base is other for _, other in objects)]
            written.append(f"class {path}({', '.join(base.__name__ for base in bases)})")
            known = {name: text for base in reversed(bases) for name, text in members(base).items()}
            written += [
                f"{path}.{name}{text}"
                for name, text in sorted(members(one).items())
                if known.get(name) != text
            ]
        elif callable(one):
            written.append(f"{path}{signature(one)}")
        else:
            written.append(f"{path}: {type(one).__name__}")
    return written


def difference(old, new):
    """What the interface lost (-) and gained (+), a line each."""
    return [f"- {one}" for one in old if one not in set(new)] + [
        f"+ {one}" for one in new if one not in set(old)
    ]


if __name__ == "__main__":
    PATH.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    print(f"{PATH.relative_to(Path.cwd())}: {len(lines())} names")
