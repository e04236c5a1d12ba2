"""A sequence that never ends: the state is carried from piece to piece, and memory stays constant.

A sensor reports in bursts of any length. Two averages, a quick and a slow one, follow its level. A burst in which they
differ by much raises an alarm. The states have the same bits as those of one call with the whole sequence.
"""

from collections.abc import Iterator

import numpy as np

import recfact as rf

KEEP = np.array([0.95, 0.999])  # of the quick and of the slow average: two channels
rng = np.random.default_rng(7)


def bursts(count: int) -> Iterator[np.ndarray]:
    """Yield the readings: noise around a level that jumps once."""
    for burst in range(count):
        yield rng.normal(3.0 if burst == 600 else 0.0, 1.0, rng.integers(1, 200))


def pieces(readings: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield coefficients, the same for all steps, and inputs of shape (steps, 2)."""
    for burst in readings:
        yield KEEP[None], (1 - KEEP) * burst[:, None]


readings = list(bursts(1000))  # kept for the comparison below; a stream would not be
alarms, streamed = [], []
for burst, average in enumerate(rf.solve_chunks(pieces(readings), axis=0)):
    if np.any(average[:, 0] - average[:, 1] > 1.5):
        alarms.append(burst)
    streamed.append(average)

print(f"the averages part in burst {alarms}")
at_once = rf.solve(KEEP[None], (1 - KEEP) * np.concatenate(readings)[:, None], axis=0)
same = np.array_equal(np.concatenate(streamed), at_once)
print(f"{len(at_once)} steps in {len(streamed)} pieces, the same bits as at once: {same}")
