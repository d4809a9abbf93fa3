"""Configuration of Sphinx; its source is the folder of pages that `pages.py` writes."""

project = "jissoku"
html_title = "jissoku"
extensions = ["myst_parser"]
html_theme = "furo"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# `--option` stays two hyphens.
smartquotes = False
highlight_language = "none"
# The anchors of headings, as in the links of docs/.
myst_heading_anchors = 6
myst_links_external_new_tab = False
