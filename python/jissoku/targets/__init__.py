"""Targets: recipes, building, starting, verifying and stopping."""
