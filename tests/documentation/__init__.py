"""The documentation site: `python -m tests.documentation FOLDER`, as `make docs`."""
