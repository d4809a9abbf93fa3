"""Probes of a running target. Each disturbs it, so none is used in a measurement."""
