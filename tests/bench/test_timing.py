"""How calls are timed, with a clock that the calls themselves advance."""

from types import SimpleNamespace

import numpy as np
import pytest

from recfact.bench import timing
from recfact.bench.timing import Effort, Quartiles, compare, interleave


class Clock:
    """Time that passes only in calls and pauses."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def call(self, name, *seconds):
        """Return a call that takes these times in turn, the last one for ever."""
        left = list(seconds)

        def run():
            self.log.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run

    def sleep(self, seconds):
        self.log.append("pause")
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: made.now, sleep=made.sleep))
    return made


def test_rounds_follow_a_warm_up_and_alternate_their_order(clock):
    interleave((clock.call("a", 1.0), clock.call("b", 2.0)), Effort(0, 3, 3, 0.5))
    a, b, pause = "a", "b", "pause"
    assert clock.log == [a, a, b, b, pause, a, pause, b, pause, b, pause, a, pause, a, pause, b]


def test_a_first_run_that_compiles_counts_for_nothing(clock):
    rounds = interleave((clock.call("a", 100.0, 1.0), clock.call("b", 50.0, 2.0)), Effort(0, 4, 4, 0))
    assert rounds == [(1.0, 2.0)] * 4


def test_short_calls_are_repeated_and_averaged(clock):
    rounds = interleave((clock.call("short", 1e-5), clock.call("long", 1.0)), Effort(0, 1, 1, 0))
    np.testing.assert_allclose(rounds, [(1e-5, 1.0)], rtol=1e-9)
    assert clock.log.count("short") == 2 + round(timing.SHORTEST / 1e-5)
    assert clock.log.count("long") == 2 + 1


@pytest.mark.parametrize(("seconds", "count"), [(0, 2), (7.5, 4), (1000, 6)])
def test_rounds_end_with_the_time_but_not_before_the_least(clock, seconds, count):
    assert len(interleave((clock.call("a", 1.0), clock.call("b", 1.0)), Effort(seconds, 2, 6, 0))) == count


def test_the_ratio_is_taken_within_rounds(clock):
    # The machine is ten times slower during the second round, for both calls.
    ours = clock.call("ours", 1.0, 1.0, 2.0, 20.0, 2.0)
    baseline = clock.call("baseline", 1.0, 1.0, 1.0, 10.0, 1.0)
    found = compare(ours, baseline, Effort(0, 3, 3, 0))
    assert found.ratio == (2.0, 2.0, 2.0)
    assert found.ours == (2.0, 2.0, 11.0)
    assert found.baseline == (1.0, 1.0, 5.5)
    assert found.baseline.spread == 4.5


def test_quartiles_of_one_number():
    assert Quartiles.of([3.0]) == (3.0, 3.0, 3.0)
    assert Quartiles.of([3.0]).spread == 0
