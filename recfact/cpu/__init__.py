"""The CPU engine. Its modules import llvmlite, so `recfact` only imports them when they are first needed."""
