"""Targets: what can be raced, how it is got, started, asked, checked and ended."""
