"""jissoku: a laboratory for the speed of HTTP servers, with its own server and load generator."""

# As of typing, which is not imported: the native commands start sooner without it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from jissoku.serving import LiveServer, run, serve_in_thread
else:

    def __getattr__(name: str) -> object:
        """The functions for serving from code, imported when they are used (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from jissoku import serving  # noqa: PLC0415 - the native commands do not need it

        return getattr(serving, name)


__all__ = ["LiveServer", "run", "serve_in_thread"]
