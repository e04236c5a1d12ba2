"""The constructions of the blocks of L in number formats, and their errors."""
