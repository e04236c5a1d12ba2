"""What the GPU tests solve, and where."""

from itertools import product

import pytest
from gpu.cases import in_turn_at


@pytest.mark.parametrize("count", [1, 3, 7])
def test_each_case_is_at_one_place_in_a_run_and_at_all_in_the_exhaustive_one(count):
    places, cases = ["p", "q", "r"], [*range(count)]
    made = in_turn_at(places, cases)
    assert sorted(one.values for one in made) == [*product(places, cases)]
    run = [one.values for one in made if not one.marks]
    assert sorted(case for _, case in run) == cases
    assert {place for place, _ in run} == {*places[:count]}
    assert {mark.name for one in made for mark in one.marks} == {"exhaustive"}
