"""How fast: what `recfact bench` measures, as ratios to the speed of memory and to peers."""
