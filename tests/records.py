"""A record that nobody measured."""

from recfact.bench.growth import Growth
from recfact.bench.record import Record, Row
from recfact.bench.timing import Comparison, Quartiles


def sample_record(ratio=1.25, spread=0.02, smoke=False, skipped=None):
    """Return a record with one row of each kind; `spread` is that of the baseline."""
    found = Comparison(
        Quartiles(ratio - 0.125, ratio, ratio + 0.125),
        Quartiles(0.01, 0.02, 0.03),
        Quartiles(0.016, 0.016, 0.016 * (1 + spread)),
    )
    rows = (
        Row.ratio("one | sequence", "np.multiply", found, 1.25),
        Row.ratio("one sequence, float32", "np.multiply", found),
        Row("a call", "", "µs", Quartiles(7.0, 8.0, 9.0), 10),
        Row.amount("memory", "the most: one sequence", "MiB", 0.5, 4),
        Row.amount("growth", "np.multiply: n^1.00", "power", 1.0),
        Row.ratio("peer: loop", "np.multiply", found, difference=3e-7),
    )
    machine = {
        "processor": "Abacus 9",
        "cores": 2,
        "memory": 8.0,
        "system": "Linux x86_64",
        "python": "3.11.0",
        "packages": {"numpy": "2.0.0"},
    }
    growth = Growth((4, 8, 16, 32), (4e-9, 8e-9, 16e-9, 32e-9), (2e-9, 4e-9, 8e-9, 16e-9))
    return Record("0.1.0", "2026-01-31", smoke, machine, rows, growth, skipped or {})
