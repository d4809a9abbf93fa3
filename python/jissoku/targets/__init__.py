"""Recipes; building, starting, verifying and stopping of targets."""
