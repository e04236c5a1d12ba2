"""The CPU engine. Its modules import numba, so `recfact` imports them when they are first needed."""
