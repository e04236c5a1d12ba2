"""Codes of the numbers of a format."""
