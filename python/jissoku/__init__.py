"""jissoku: a laboratory for the speed of HTTP servers, with its own server and load generator."""
