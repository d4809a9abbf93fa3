"""Simulated campaigns through the public functions that turn records into verdicts.

How often is the lab wrong where the truth is known? `python -m tests.simulation` counts at length.
"""
