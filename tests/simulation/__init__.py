"""Simulated campaigns through the public functions that turn records into verdicts.

They count wrong verdicts where the true ratio is known. `python -m tests.simulation` runs many.
"""
