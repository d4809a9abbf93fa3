"""Misconfigured servers of our own making, and clean ones, explained through the command line."""
