"""What tests are written with: loops in the place of parameters, and samples of cases."""

from itertools import product
from types import SimpleNamespace

import pytest
from noted import in_turn
from samples import leave_to_the_slow_run, one_in

SEEN = []


@pytest.mark.parametrize("b", [1, 2])
@in_turn("a", [1, 2, 3])
@in_turn(("c", "d"), [("x", "y"), ("z", "w")])
def test_each_turn_is_taken(request, a, b, c, d):
    assert request.node.callspec.params == {"b": b}
    SEEN.append((a, b, c, d))
    if (b, a, c) == (2, 3, "z"):
        assert sorted(SEEN) == [(a, b, *cd) for a, b, cd in product((1, 2, 3), (1, 2), (("x", "y"), ("z", "w")))]


def test_a_failure_says_in_which_turn_it_was():
    @in_turn("n", [3, 4, 5])
    def fails(n):
        assert n != 4

    with pytest.raises(AssertionError) as failure:
        fails()
    assert failure.value.__notes__ == ["n = 4"]


def test_a_loop_is_skipped_if_all_of_its_turns_are():
    turns = []

    @in_turn("n", [1, 2])
    def skips(n, least):
        if n < least:
            pytest.skip("too small")
        turns.append(n)

    skips(least=2)
    assert turns == [2]
    with pytest.raises(pytest.skip.Exception, match="too small"):
        skips(least=3)


@pytest.mark.parametrize("k", [10, 20])
@in_turn("n", [0, 1, 2, 3], one_in=2)
def test_turns_are_shared_by_the_runs(request, k, n):
    case = request.node.callspec.params
    assert case["k"] == k
    assert (n % 2 == k // 10 - 1) == (case["turns_of"] == "default") != bool(request.node.get_closest_marker("slow"))


def test_no_case_is_left_without_a_turn():
    with pytest.raises(ValueError, match="of 2 turns"):
        in_turn("n", [0, 1], one_in=3)


def test_the_first_of_several_values_is_for_the_default_run():
    made = one_in(3, "abcdefg")
    assert "".join(value for case in made for value in case.values) == "abcdefg"
    assert [case.values for case in made if not case.marks] == [("a",), ("d",), ("g",)]
    assert {mark.name for case in made for mark in case.marks} == {"slow"}


@pytest.mark.parametrize("k", [1, 2, 3])
def test_any_values_meet_in_a_sample(k):
    choices = {"a": [[1], [2], [3], [4]], "b": ["x", "y", "z"], "c": [None, 0.5]}
    slow, cases = [], [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    leave_to_the_slow_run(
        SimpleNamespace(
            nodeid=str(case),
            path="here",
            originalname="test",
            callspec=SimpleNamespace(params=case),
            get_closest_marker=lambda name: SimpleNamespace(args=(k,)) if name == "sampled" else None,
            add_marker=lambda mark, case=case: slow.append(case) or mark == "slow",
        )
        for case in cases
    )
    left = [case for case in cases if case not in slow]
    assert all(any(case[name] == value for case in left) for name, values in choices.items() for value in values)
    if k > 1:
        assert all(any((case["a"], case["b"]) == pair for case in left) for pair in product(choices["a"], choices["b"]))
    assert (len(left) == len(cases)) == (k == 3)
