"""jissoku: a laboratory for the speed of HTTP servers, with its own server and load generator."""

from jissoku.serving import LiveServer, run, serve_in_thread

__all__ = ["LiveServer", "run", "serve_in_thread"]
