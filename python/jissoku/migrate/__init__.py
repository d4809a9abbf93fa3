"""The command line of another application server as ours. Pure."""
