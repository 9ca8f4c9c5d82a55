"""The style of the gallery, which Sphinx-Gallery sets before each script."""

from pathlib import Path

import matplotlib.pyplot as plt

STYLE = Path(__file__).with_name("gallery.mplstyle")


def set_style(gallery_conf, fname):
    """Set the style of the figures; Sphinx-Gallery has just reset matplotlib."""
    plt.style.use(STYLE)
