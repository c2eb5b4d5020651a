"""Sphinx settings: `sphinx-build -W docs site` turns these pages into a site."""

project = "spader_slime"
author = "the spader_slime authors"
copyright = author  # the name that Sphinx wants
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "site"]
html_theme = "furo"
html_title = "spader_slime"
html_static_path: list[str] = []
