"""Tests that take minutes: `make endurance`. Each prints its measured values."""
