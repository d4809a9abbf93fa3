"""jissoku: a laboratory for the speed of HTTP servers, with its own server and load generator."""

# As of typing, which is not imported: the native commands start sooner without it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from jissoku.comparing import ComparisonResult, compare
    from jissoku.loading import LoadResult, load
    from jissoku.serving import LiveServer, run, serve_in_thread
else:
    MODULES = {
        "ComparisonResult": "comparing",
        "LoadResult": "loading",
        "compare": "comparing",
        "load": "loading",
    }

    def __getattr__(name: str) -> object:
        """What scripts use, imported when it is used (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - the native commands do not need it

        try:
            module = import_module(f"{__name__}.{MODULES.get(name, 'serving')}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith(__name__):
                raise
            needed = f"jissoku.{name} needs {error.name}: pip install 'jissoku[lab]'"
            raise ModuleNotFoundError(needed, name=error.name) from error
        return getattr(module, name)


__all__ = [
    "ComparisonResult",
    "LiveServer",
    "LoadResult",
    "compare",
    "load",
    "run",
    "serve_in_thread",
]
