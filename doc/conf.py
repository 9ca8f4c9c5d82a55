"""How Sphinx builds the documentation: `make doc`. Nothing is fetched from the network."""

import inspect
import re
import sys
import warnings
from pathlib import Path

from sphinx import addnodes
from sphinx.util.inspect import stringify_signature

import sklearn_ldp

sys.path.insert(0, str(Path(__file__).parent))  # for gallery.py

project = "sklearn_ldp"
author = "The sklearn_ldp developers"
copyright = author
version = release = sklearn_ldp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "examples", "paper.md", "auto_examples/*.ipynb", "auto_examples/*.py"]
default_role = "literal"
nitpicky = False

# -- pages in Markdown: $..$ and $$..$$ are formulas, `(label)` behind $$ gives them a number ----
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_dmath_allow_labels = True
myst_heading_anchors = 3
math_eqref_format = "Eq. {number}"
math_number_all = False
numfig = True  # equations are numbered through all pages
numfig_secnum_depth = 0

# -- the reference: a page a public name, made from its docstring ----
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
extlinks = {"doi": ("https://doi.org/%s", "doi:%s")}

# -- the gallery ----
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": r"index\.rst",  # the index groups the examples
    "reset_modules": ("matplotlib", "gallery.set_style"),
    "ignore_pattern": r"__init__|shared_",  # modules that examples import
    "download_all_examples": False,
    "show_memory": False,
    "image_srcset": ["2x"],  # the gallery resets matplotlib's dpi, so a dpi set here has no effect
    "thumbnail_size": (640, 448),
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "doc_module": ("sklearn_ldp",),
    "backreferences_dir": "generated/backreferences",
    "inspect_global_variables": False,
    "abort_on_example_error": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# -- what it looks like ----
html_theme = "pydata_sphinx_theme"
html_title = "sklearn_ldp"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "navbar_center": ["navbar-links"],
    "show_nav_level": 1,
    "show_toc_level": 2,
    "collapse_navigation": True,  # shows names of the reference only in the reference
    # Notes, which have wide tables, have the room to themselves.
    "secondary_sidebar_items": {
        "**": ["page-toc"],
        **{f"notes/{page.stem}": [] for page in (Path(__file__).parent / "notes").glob("*.md")},
    },
    "footer_start": ["copyright"],
    "footer_end": [],
}
# One sidebar for all pages, in the groups of the front page: the only order of the pages.
html_sidebars = {"**": ["sidebar-groups"]}


def show_parameters_of_init(app, what, name, obj, options, signature, annotation):
    """Show the parameters of `__init__`; Sphinx reads those of an inherited `__new__` first."""
    if what != "class" or signature != "(*args, **kwargs)":
        return None
    init = inspect.signature(obj)
    return stringify_signature(init, show_annotation=False, show_return_annotation=False), None


def skip_what_others_wrote(app, what, name, obj, skip, options):
    """Leave out what scikit-learn, NumPy and Python itself wrote, and named tuples' fields."""
    if type(obj).__name__ == "_tuplegetter":
        return True
    owner = getattr(
        obj, "__objclass__", None
    )  # methods written in C, such as most methods of arrays
    if owner is not None and not owner.__module__.startswith("sklearn_ldp"):
        return True
    function = inspect.unwrap(getattr(obj, "fget", None) or getattr(obj, "__func__", obj))
    module = getattr(function, "__module__", None) or ""
    is_method = callable(function) or isinstance(obj, property)
    return True if is_method and not module.startswith("sklearn_ldp") else None


def quote_trailing_underscores(app, what, name, obj, options, lines):
    """Keep `n_features_in_` and its like from being read as the names of links."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r"(?<![\w`.])([a-z]\w*_)(?=[,)])", r"`\1`", line)


def link_to_defining_class(app, doctree):
    """Link an inherited method to the source of the class that defines it."""
    for signature in doctree.findall(addnodes.desc_signature):
        class_name, _, name = signature.get("fullname", "").rpartition(".")
        own = getattr(sys.modules.get(signature.get("module")), class_name, None)
        if not isinstance(own, type) or name in vars(own):
            continue
        for base in own.__mro__:
            if name in vars(base) and base.__module__.startswith("sklearn_ldp"):
                # The public module, where viewcode finds the page of the base to link back to.
                public = base.__module__.partition("._")[0]
                exported = hasattr(sys.modules[public], base.__name__)
                signature["module"] = public if exported else base.__module__
                signature["fullname"] = f"{base.__qualname__}.{name}"
                break


def setup(app):
    app.connect("doctree-read", link_to_defining_class, priority=400)  # before viewcode
    app.connect("autodoc-process-signature", show_parameters_of_init)
    app.connect("autodoc-skip-member", skip_what_others_wrote)
    app.connect("autodoc-process-docstring", quote_trailing_underscores, priority=400)
