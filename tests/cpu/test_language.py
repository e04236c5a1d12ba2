"""The language of kernels against Python, which runs the same source."""

from types import FunctionType
from typing import NamedTuple

import numpy as np
import pytest

from recfact.cpu.compilation import Kernel, apart, helper, kernel
from recfact.cpu.numbers import Lanes
from recfact.cpu.operations import integer, load, put_integer, single, size, store, width

LANES = Lanes("float64", 1)
WORD = 64


class Pair(NamedTuple):
    """Two integers."""

    first: int
    second: int


@helper
def clipped(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


@apart
def divided(x, y):
    return Pair(x // y, x % y)


@helper
def next_of(x):
    x += 1
    return x


def division(lanes, x, y):
    pair = divided(x, y)
    quotient, rest = x // y, x % y
    return (pair.first == quotient and pair.second == rest) * 1000 + 31 * quotient + rest


def bits(lanes, x, y):
    word = x << (y & 7) | 1
    word ^= y
    return (word >> 2) + (-word & 255) * WORD


def loops(lanes, x, y):
    total, turns = 0, 0
    for i in range(x % 7, 20, 3):
        if i % 5 == 4:
            continue
        for j in range(i, -3, -2):
            total += i * j
            if total > 50 + y % 100:
                break
        turns = turns + 1
    while (total > 3 and not total & 1) or turns == 100:
        total = total // 2 - 1
    return total * 100 + turns + i


def choices(lanes, x, y):
    largest = max(x, y, -3)
    smallest = min(x, y)
    inside = clipped(x, -2, 2) if x != y else next_of(next_of(y))
    either = x > 0 or y > 0
    both = x > 0 and y > 0 and x // max(y, 1) > 1
    parts = (largest, smallest, inside)
    first, (second, third) = parts[0], parts[1:]
    return first + 10 * second + 100 * third + 1000 * either + 2000 * both + 4000 * (not either)


def returns(lanes, x, y):
    for i in range(10):
        if i == x:
            return i * 2
        if i > y:
            return -i
    return 99


PROGRAMS = [division, bits, loops, choices, returns]
NUMBERS = [-9, -3, -2, -1, 1, 2, 3, 5, 8, 130]


def in_python(function):
    """Return a program with its helpers as Python runs them."""
    plain = {name: getattr(value, "function", value) for name, value in function.__globals__.items()}
    return FunctionType(function.__code__, plain)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_return_what_python_returns(program):
    compiled, plain = Kernel(program)[LANES], in_python(program)
    for function in (clipped, divided, next_of):
        plain.__globals__[function.function.__name__] = in_python(function.function)
    for x in NUMBERS:
        for y in NUMBERS:
            assert compiled(x, y) == plain(LANES, x, y), (x, y)


def test_numbers_in_memory():
    @kernel
    def sums(lanes, source, to, count):
        total = load(single(lanes), source, 0)
        biggest = total
        for k in range(1, count):
            value = load(single(lanes), source, k * size(single(lanes)))
            total = total + value
            biggest = max(biggest, value)
        store(single(lanes), to, 0, total - biggest * 2)
        put_integer(to, 1, integer(to, 1) + width(lanes))

    source, to = np.arange(1.0, 8.0), np.array([0.0, 0.0])
    assert sums[Lanes("float64", 4)](source.ctypes.data, to.ctypes.data, len(source)) == 0
    assert to[0] == source.sum() - 14
    assert to.view(np.int64)[1] == 4


def test_a_kernel_takes_as_many_integers_as_it_has():
    compiled = Kernel(returns)[LANES]
    assert compiled(np.int64(3), True) == -2
    for wrong in ((1,), (1, 2, 3), (1, 0.5), (1, 1 << 70), ("1", 2), ((1, 2), 3), ((1, 2, "3"), 3), (1, (1, 2, 3))):
        with pytest.raises((TypeError, OverflowError)):
            compiled(*wrong)


def test_what_the_language_lacks_is_named_with_its_line():
    def unknown(lanes, x):
        y = x
        return y @ x

    def changing(lanes, x):
        y = 0
        if x > 1:
            y = (x, x)
        return y

    def strange(lanes, x):
        return [x]

    def nameless(lanes, x):
        return nothing(x)  # noqa: F821

    for program, message in ((unknown, "MatMult"), (changing, "y = "), (strange, "List"), (nameless, "nothing")):
        with pytest.raises((TypeError, NameError)) as caught:
            Kernel(program)[LANES]
        assert message in str(caught.value) + "".join(caught.value.__notes__)


def test_arrays_stand_for_their_addresses_and_three_for_a_table():
    def address_of(lanes, table, place, array):
        return integer(table, place) if place >= 0 else array

    compiled = Kernel(address_of)[LANES]
    arrays = np.arange(9.0)[::2], np.broadcast_to(np.float32(1), 5), np.zeros((0, 3), "c16")
    for place, array in enumerate(arrays):
        assert compiled(arrays, place, 0) == array.ctypes.data
        assert compiled(0, -1, array) == array.ctypes.data
