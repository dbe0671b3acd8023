"""How Sphinx builds the site: `make docs`."""

from __future__ import annotations

from importlib.metadata import version as installed

project = "gofstream"
author = "The gofstream developers"
project_copyright = "2026, the gofstream developers"
version = release = installed("gofstream")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "results/gallery/toys/**"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
# Blocks that are not Python are formulae, terminals and JSON; guessing colours them wrongly.
highlight_language = "none"

html_theme = "pydata_sphinx_theme"
html_title = "gofstream"
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
