"""The store beside memcached and Redis over a Unix socket, and what a read costs in a handler."""
