"""Configuration of the site: `python -m sphinx -W --keep-going docs build/site` builds it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import api_pages

import fusewire

project = "fusewire"
author = "the authors of fusewire"
version = release = fusewire.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["build"]
html_theme = "furo"
html_title = f"fusewire {release}"
toc_object_entries = False  # 1,500 entries in the navigation of each page would take a minute
smartquotes = False         # quotes are code more often than prose
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4   # links to headings, as on GitHub
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]  # outputs are shown without a language

autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 100
napoleon_use_ivar = True


def setup(app: Any) -> None:
    """Writes the pages of the API before sources are read, and adapts docstrings."""
    app.connect("builder-inited", lambda app: api_pages.write(Path(app.srcdir) / "reference/api"))
    app.connect("autodoc-process-docstring", api_pages.as_rest, priority=400)  # before napoleon
