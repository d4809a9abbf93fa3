"""Recipes of handlers whose cost is compared in docs/handlers.md."""
