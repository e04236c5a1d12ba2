"""The measurements of `recfact bench`: times as ratios to the speed of memory and to peers."""
