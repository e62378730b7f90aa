"""How Sphinx builds this site: `sphinx-build -W -b html docs docs/_build`.

Nothing is fetched while it builds or while it is read: formulas are MathML, which browsers draw
themselves, and the notebooks are shown with the outputs that they are committed with. The tests run
them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from survival_objectives import __version__

project = "survival-objectives"
author = "The survival-objectives developers"
copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_copybutton",
    "mathml",
    "formulas",
    "reference",
    "command_help",
    "outside",
]
exclude_patterns = [
    "_build",
    "_ext",
    "_static",
    "figures",
    "jupyter_execute",
    "generated/results/opening.md",
]

# Markdown and notebooks.
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"

# Docstrings.
default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"

# Looks: nothing comes from outside.
html_theme = "pydata_sphinx_theme"
html_title = f"survival-objectives {release}"
html_static_path = ["_static"]
# Pages without pages below them need no list of those.
html_sidebars = {page: [] for page in ("index", "tutorial", "method")}
html_css_files = ["site.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "collapse_navigation": True,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
copybutton_exclude = ".linenos, .gp, .go"
