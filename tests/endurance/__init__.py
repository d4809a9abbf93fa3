"""Promises that take minutes to try: `make endurance`. Each prints the figures that it found."""
