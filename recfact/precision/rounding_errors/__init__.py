"""Algorithms run in a number format, and proved bounds of their rounding errors."""
