"""Number formats as data, and correct rounding to them."""
