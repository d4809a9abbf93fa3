"""The documentation site: `python -m docs.site FOLDER`, as `make docs`."""
