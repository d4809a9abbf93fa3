"""jissoku: a speed laboratory for HTTP servers, and the server that came out of it."""
