"""Measured errors against proved bounds, for one recurrence or very many."""
