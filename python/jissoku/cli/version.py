"""The version of jissoku, with the profile and revision of its build."""

from jissoku import _native


def version_line() -> str:
    """For example `jissoku 0.1.0 (release, 1a2b3c4)`; `dirty` when the tree had changes."""
    return f"jissoku {_native.__version__} ({_native.__build__})"
