"""choose_window against trying all windows."""

import json
import math
import re
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from market import fractions

from recfact import Jagged, TransferOperator, Uniform
from recfact.algorithms import hierarchical
from recfact.errors import DTypeError, OptionError, ShapeError
from recfact.precision import FloatFormat, choose_window, truncation_bound, truncation_norm
from recfact.precision.exact.outward import round_up
from recfact.precision.truncation import window_rows, window_search
from recfact.precision.truncation.window_choice import Candidate, entries_per_step, operations_per_step
from recfact.recurrence import windowed


def kinds(result):
    return {type(candidate.window): candidate.window for candidate in result.candidates}


def best(a, tol, relative_to, block, offsets=None):
    """Return the cheapest window of each kind by trying all that are shorter than the sequence.

    Blocks without terms that are longer than twice the shortest uniform window end as often as n has digits.
    """
    n = len(a) if offsets is None else max(np.diff(offsets))
    uniform = [Uniform(lags) for lags in range(1, max(2, n))]
    if block is None:
        pairs = [(length, terms) for length in range(1, n) for terms in range(n) if (terms + 1) * length < n]
        # Several terms only where a sequence is long enough for as long a block with one, which keeps more.
        jagged = [Jagged(length, terms) for length, terms in pairs if terms < 2 or 2 * terms * length < n]
    else:
        jagged = [Jagged(block, terms) for terms in range(max(1, -(-n // block) - 1))]
    found = {}
    for windows in (uniform, jagged):
        if block is None and Uniform in found:
            short = max(2 * found[Uniform].lags, (n - 1) // len(str(n)))
            windows = [window for window in windows if window.terms or window.block <= short]
        options = {"relative_to": relative_to, "offsets": offsets}
        good = [window for window in windows if truncation_norm(a, window, **options) <= tol]
        if good:
            cheapest = min(good, key=lambda window: (operations_per_step(window), entries_per_step(window)))
            found[type(cheapest)] = cheapest
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("relative_to", ["state", "input"])
@pytest.mark.parametrize("block", [None, 1, 3, 7])
def test_choices_are_the_cheapest_windows(relative_to, block, rng):
    for case in range(20):
        n = int(rng.integers(1, 30))
        a = rng.uniform(-1, 1, n) * rng.choice([0.3, 0.9, 1])
        if n > 5 and case % 3 == 0:
            a[rng.integers(n, size=2)] = 0
        if case % 5 == 0:
            a[:: int(rng.integers(1, 8))] *= rng.choice([0, 0.02])
        if case % 7 == 0:
            a = np.sign(a)
        tol = float(rng.choice([0, 1e-3, 0.01, 0.1, 0.5, 1, 3]))
        result = choose_window(a, tol, relative_to=relative_to, block=block)
        expected = best(a, tol, relative_to, block)
        assert kinds(result) == (expected if Uniform in expected else {})
        for candidate in result.candidates:
            sharp = truncation_norm(a, candidate.window, relative_to=relative_to)
            # A rounding up by 2^-52 for each factor and product, and (n + 8) / 2 for the states.
            assert sharp <= candidate.error <= min(tol, sharp * (1 + 2.0**-52) ** (4 * n))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rho", [0, 0.1, 0.5, Fraction(1, 3), "0.9", 0.99, 1 - 2.0**-24, 1 - 2.0**-53])
@pytest.mark.parametrize("relative_to", ["state", "input"])
@pytest.mark.parametrize("block", [None, 16])
def test_choices_for_a_bound_are_the_shortest(rho, relative_to, block):
    def error(window):
        return truncation_bound(rho, window, relative_to=relative_to)

    for tol in (1e-9, 0.01, 0.5, 1.0, 2.0):
        found = kinds(choose_window(rho, tol, relative_to=relative_to, block=block))
        assert found.keys() == {Uniform, Jagged}
        assert all(error(window) <= tol for window in found.values())
        lags, jagged = found[Uniform].lags, found[Jagged]
        assert lags == 1 or error(Uniform(lags - 1)) > tol
        if block is not None:
            assert jagged.block == block
            assert jagged.terms == 0 or error(Jagged(block, jagged.terms - 1)) > tol
        else:
            assert jagged.block == 1 or error(Jagged(jagged.block - 1)) > tol


def all_of(rows, tol, relative_to, block):
    """Return the cheapest window of each kind that is good for each of several sequences, by trying all."""
    n = len(rows[0])
    uniform = [Uniform(lags) for lags in range(1, max(2, n))]
    if block is None:
        jagged = [Jagged(length, terms) for terms in (0, 1) for length in range(1, n) if (terms + 1) * length < n]
    else:
        jagged = [Jagged(block, terms) for terms in range(max(1, -(-n // block) - 1))]

    def good(window):
        return all(truncation_norm(row, window, relative_to=relative_to) <= tol for row in rows)

    shortest = next((window for window in uniform if good(window)), None)
    if shortest is None:
        return {}
    if block is None:
        longest = max(2 * shortest.lags, (n - 1) // len(str(n)))
        jagged = [window for window in jagged if window.terms or window.block <= longest]
    found = [window for window in jagged if good(window)]
    cheapest = min(found, key=lambda each: (operations_per_step(each), entries_per_step(each)), default=None)
    return {type(window): window for window in (shortest, cheapest) if window}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("relative_to", ["state", "input"])
@pytest.mark.parametrize("block", [None, 1, 4])
def test_the_choice_for_a_batch_is_good_for_every_sequence(relative_to, block, rng):
    for case in range(30):
        shape = [int(rng.integers(1, 4)), int(rng.integers(1, 4))]
        axis, n = case % 3, int(rng.integers(1, 20))
        shape.insert(axis, n)
        a = rng.uniform(-1, 1, shape) * rng.choice([0.3, 0.7, 1], np.where(np.arange(3) == axis, 1, shape))
        if case % 4 == 0:
            a[rng.random(shape) < 0.2] = 0
        rows = np.moveaxis(a, axis, -1).reshape(-1, n)
        tol = float(rng.choice([0, 1e-3, 0.01, 0.1, 0.5]))
        result = choose_window(a, tol, relative_to=relative_to, block=block, axis=axis)
        assert kinds(result) == all_of(rows, tol, relative_to, block)
        if not result or result.error == 0:
            assert result.worst is None
            continue
        for candidate in result.candidates:
            sharp = max(truncation_norm(row, candidate.window, relative_to=relative_to) for row in rows)
            assert sharp <= candidate.error <= tol
        # Where the worst is, a row of the error has the norm of all.
        channel = [at for k, at in enumerate(result.worst) if k != axis]
        row, step = np.moveaxis(a, axis, -1)[tuple(channel)], result.worst[axis]
        error = rf_error(row, result.window, relative_to)
        norms = np.abs(error).sum(axis=1)
        assert norms[step] == pytest.approx(result.error, rel=1e-5)
        assert not np.any(norms[:step] > norms[step] * (1 + 1e-9))


def rf_error(a, window, relative_to):
    """Return L - L~, or N in L~ = (I - N) L, as a dense matrix in floats."""
    exact = TransferOperator(a)
    lost = exact.to_dense() - exact.truncate(window).to_dense()
    return lost if relative_to == "input" else lost @ exact.inv().to_dense()


def test_a_batch_names_the_worst_place():
    gates = np.full((4, 200, 3), 0.5)
    gates[2, :, 1] = 0.9
    found = choose_window(gates, format="bfloat16", axis=1)
    assert found.window == choose_window(gates[2, :, 1], format="bfloat16").window == Jagged(52)
    assert found.worst == (2, 104, 1)
    assert str(found).splitlines()[-1] == "(the most is lost at a[2, 104, 1])"
    assert json.loads(found.to_json())["worst"] == [2, 104, 1]
    assert "lost at" not in str(choose_window(gates[2, :, 1], format="bfloat16"))
    empty = choose_window(np.ones((0, 50)), 0)
    assert (empty.window, empty.error, empty.worst) == (Uniform(1), 0.0, None)


def test_a_block_that_ends_at_a_small_coefficient_is_no_short_window():
    a = np.full(1000, 0.5)
    a[855] = 1e-9
    found = kinds(choose_window(a, 1e-3))
    assert found == {Uniform: Uniform(10), Jagged: Jagged(9)}


def test_blocks_that_start_anew_are_found_however_long():
    a = np.full(5000, 0.8)
    a[::1000] = 0
    assert choose_window(a, 1e-4).candidates[0] == Candidate(Jagged(1000, 0), 0.0)
    assert choose_window(a[:3000], 1e-4).window == Jagged(41)  # the first step of all ends no block


def test_formats_stand_for_their_unit_roundoff():
    for name, unit in (("bfloat16", 2**-8), ("float16", 2**-11), ("float32", 2**-24)):
        result = choose_window(0.9, format=name)
        assert result.tol == unit
        assert result.window == choose_window(0.9, unit).window
        assert "unit roundoff" in repr(result)


def test_growing_coefficients_may_find_a_window(rng):
    a = rng.uniform(0.5, 1.5, 200)
    a[::10] = 0
    result = choose_window(a, 0.0)
    assert result.window == Jagged(10, terms=0)
    assert result.error == 0.0
    assert not choose_window(np.full(20, 1.5), 0.5)


def test_no_window_is_said_clearly():
    shorter = " shorter than the sequence"
    for a, which in ((np.ones(50), shorter), (1, ""), (1.5, ""), (np.full(20, 1.5), shorter)):
        result = choose_window(a, 0.5)
        assert not result
        assert result.window is None
        assert result.error == np.inf
        assert repr(result).startswith(
            f"No window{which} is proved to keep the truncation error within 0.5 times the largest exact state: "
        )
    assert choose_window(1, 0.5).reason == "coefficients of magnitude 1 let no input fade"
    assert choose_window(1.5, 0.5).reason == choose_window([1.5] * 20, 0.5).reason
    assert "above 1 in magnitude" in choose_window(1.5, 0.5).reason
    assert "every input leaves a trace" in repr(choose_window(0.5, 0))
    assert "sees the first with a weight of 1" in repr(choose_window(np.ones(50), 0.5))


@pytest.mark.parametrize("block", [None, 3, 5])
def test_a_uniform_window_alone_comes_with_the_jagged_window_that_keeps_all(block, rng):
    a = rng.uniform(0, 0.9, 12)
    result = choose_window(a, 1e-3, block=block)
    assert kinds(result) == {Uniform: result.window}
    named = {None: Jagged(6), 3: Jagged(3, 3), 5: Jagged(5, 2)}[block]
    assert result.reason == f"no jagged window that was tried is good enough; {named} keeps whole sequences"
    assert f"({result.reason})" in repr(result)
    assert truncation_norm(a, named) == 0 < truncation_norm(a, result.window)
    assert choose_window(1.5, 2.0).reason.endswith(
        "good enough: coefficients above 1 in magnitude make lost states larger"
    )
    assert choose_window(a, 0.1).reason == ""


@pytest.mark.parametrize("last", [0.0004882815, 0.12345674, 1e-300, 5e-324])
def test_no_printed_limit_is_one_that_a_window_keeps(last):
    for tol in (np.nextafter(last, 0), Fraction(last) * Fraction(10**9, 10**9 + 1)):
        none = choose_window([1, last], tol if tol > 5e-324 else 0)
        assert none.window is None
        printed = re.search(r"within (\S*) times", str(none))[1]
        assert float(printed) < last
    found = choose_window([1, last], last)
    assert float(re.search(r"within (\S*) times", str(found))[1]) >= last


def test_limits_below_all_floats_are_refused():
    for tol in ("1e-400", Fraction(1, 2**1075), "5e-325"):
        with pytest.raises(OptionError, match=r"tol must be 0 or at least 2\^-1074"):
            choose_window(0.5, tol)
    fine = FloatFormat.from_bits(12, 1100)
    with pytest.raises(OptionError, match=r"the unit roundoff of .* must be 0 or at least 2\^-1074"):
        choose_window([0.5] * 9, format=fine)
    assert choose_window(0.5, 5e-324).window == choose_window(0.5, Fraction(1, 2**1074)).window == Jagged(1073)


def test_bounds_next_to_1():
    found = choose_window(1 - Fraction(1, 2**255), format="half")
    assert Fraction(11, 16) < Fraction(found.window.block, 11 * 2**255) < Fraction(12, 16)  # log 2 is 0.693
    for power in (257, 100_000):
        with pytest.raises(OptionError, match=r"bounds up to 1 - 2\^-256 and from 1 on, got a = "):
            choose_window(1 - Fraction(1, 2**power), format="half")
        assert choose_window(1 - Fraction(1, 2**power), 1).window == Uniform(1)


def test_short_sequences_need_no_window():
    for a in ([], [0.5], [3.0]):
        result = choose_window(a, 0)
        assert (result.window, result.error) == (Uniform(1), 0.0)


def test_a_choice_prints_itself():
    assert repr(choose_window([0.5] * 100, 2.0**-11, relative_to="input", block=4)).splitlines() == [
        "Jagged(4, 3) keeps the truncation error within 0.00048828125 times the largest input.",
        "window        proved error  operations  entries",
        "Jagged(4, 3)   0.000244141        5.17     14.5",
        "Uniform(12)    0.000488282        6.92       12",
        "(operations and entries a step, for long sequences)",
    ]


def test_the_fastest_window_fills_tiles_of_a_gpu_and_is_proved():
    gates = np.random.default_rng(5).uniform(0.3, 0.95, 700)
    for a, options in ((0.9, {"format": "bfloat16"}), (0.5, {"tol": 1e-6}), (gates, {"format": "float32"})):
        choice = choose_window(a, **options)
        shortest = next(each.window for each in choice.candidates if isinstance(each.window, Jagged))
        block = choice.fastest.window.block
        assert (block % 16, choice.fastest.window.terms) == (0, shortest.terms)
        assert block - 16 < shortest.block <= block
        assert choice.fastest.error <= choice.tol
    assert f"{choose_window(0.9, format='bfloat16').fastest.window}" in repr(choose_window(0.9, format="bfloat16"))


def test_there_is_no_fastest_window_where_none_is_shorter_or_a_block_was_asked_for():
    assert choose_window(0.9, format="bfloat16", block=20).fastest is None
    assert choose_window([0.5] * 12, 1e-3).fastest is None
    assert choose_window(1.0, 0.1).fastest is None
    resets = np.where(np.arange(5000) % 1000 == 0, 0.0, 0.8)
    assert choose_window(resets, 1e-4).fastest is None  # blocks of 1008 steps would cut where nothing is zero


class Counting:
    """A scalar that counts the operations done to it and its like."""

    operations = 0

    def __mul__(self, other):
        Counting.operations += 1
        return self

    __add__ = __mul__


def uniform_in_blocks(a, u, lags):
    """Make a uniform window of at least 3 lags in blocks of as many steps, in the order that is counted."""
    x, suffixes = [], []
    for start in range(0, len(u), lags):
        coefficients, inputs = a[start : start + lags], u[start : start + lags]
        state, product = inputs[0], coefficients[0]
        for k in range(lags):
            if k:
                state = coefficients[k] * state + inputs[k]
            if 0 < k < lags - 1 and start:
                product = product * coefficients[k]
            x.append(product * suffixes[k] + state if k < lags - 1 and start else state)
        # What the steps after k bring to the end of the block.
        suffix, weight = inputs[-1], coefficients[-1]
        suffixes = [suffix]
        for k in range(lags - 2, 0, -1):
            suffix = weight * inputs[k] + suffix
            suffixes.insert(0, suffix)
            weight = weight * coefficients[k] if k > 1 else weight
    return x


def count(make, n):
    """Return the operations of an algorithm for n steps."""
    Counting.operations = 0
    scalars = np.array([Counting() for _ in range(n)], dtype=object)
    make(scalars, scalars.copy())
    return Counting.operations


@pytest.mark.parametrize("lags", [3, 4, 9])
def test_operations_of_uniform_windows_are_counted(lags, rng):
    a, u = fractions(rng.integers(-4, 5, 5 * lags) / 4), fractions(rng.integers(-4, 5, 5 * lags) / 4)
    assert uniform_in_blocks(a, u, lags) == list(windowed(a, u, Uniform(lags)))
    few, many = (count(lambda a, u: uniform_in_blocks(a, u, lags), blocks * lags) for blocks in (10, 30))
    assert Fraction(many - few, 20 * lags) == Fraction(operations_per_step(Uniform(lags))).limit_denominator(lags)


@pytest.mark.parametrize("window", [Jagged(1), Jagged(5), Jagged(4, 2), Jagged(16, 2)], ids=str)
def test_operations_of_jagged_windows_are_counted(window):
    few, many = (
        count(lambda a, u: hierarchical(a, u, window.block, window.terms), blocks * window.block) for blocks in (10, 30)
    )
    operations = Fraction(operations_per_step(window)).limit_denominator(window.block)
    assert Fraction(many - few, 20 * window.block) == operations


def test_operations_of_small_windows():
    assert [operations_per_step(Uniform(lags)) for lags in (1, 2)] == [0, 2]  # u, a u + u
    assert operations_per_step(Jagged(4, 0)) == 6 / 4
    for terms in (1, 2, 5):
        assert operations_per_step(Jagged(1, terms)) >= operations_per_step(Uniform(terms + 1))


def test_entries_are_those_of_the_operator():
    from recfact.factorizations import truncate

    for window in (Uniform(5), Jagged(4), Jagged(4, 3), Jagged(6, 0)):
        few, many = (truncate(np.ones(n), window).nnz for n in (240, 480))
        assert (many - few) / 240 == entries_per_step(window)


def test_arguments_are_checked():
    with pytest.raises(OptionError, match=r"needs tol, .* or format, .* pass one"):
        choose_window([0.5])
    with pytest.raises(OptionError, match="takes tol or format, got both; leave one out"):
        choose_window([0.5], 0.1, format="float16")
    with pytest.raises(OptionError, match="tol must be a number, got 'bf16'; pass format='bf16'"):
        choose_window([0.5], "bf16")
    with pytest.raises(OptionError, match="tol"):
        choose_window([0.5], -1)
    with pytest.raises(OptionError, match="finite"):
        choose_window([0.5, np.nan], 0.1)
    with pytest.raises(OptionError, match="a bounds magnitudes"):
        choose_window(-0.5, 0.1)
    with pytest.raises(OptionError, match="block"):
        choose_window([0.5], 0.1, block=0)
    with pytest.raises(OptionError, match="relative_to"):
        choose_window([0.5], 0.1, relative_to="x")


def test_a_block_longer_than_any_sequence_keeps_everything():
    assert choose_window([0.5] * 9, 0.1, block=10**40).error == 0


@pytest.mark.parametrize("a", [[0.5, 0.5j], [Fraction(1, 3), 1j], np.array(["x", 0.5], dtype=object)])
def test_windows_are_chosen_for_real_coefficients(a):
    with pytest.raises(DTypeError, match=r"real coefficients|coefficients must be numbers"):
        choose_window(a, 0.1)


def test_coefficients_beyond_float64_are_refused():
    with pytest.raises(OptionError, match="range of float64"):
        choose_window([2**5000, 1], 0.1)


def test_what_is_small_is_not_taken_for_zero():
    tiny = np.full(1500, 0.5)  # the product of all is 2^-1499, which float64 doesn't hold
    assert not choose_window(tiny, 0)
    growing = np.full(3000, 1.5)
    growing[::100] = 0
    assert choose_window(growing, 0).window == Jagged(100, terms=0)


def test_long_sequences_need_no_number_of_128_bits(monkeypatch, rng):
    monkeypatch.setattr(window_search, "truncation_norm", None)
    a = rng.uniform(0, 0.9, 200_000)
    a[5] = 1.0
    assert choose_window(a, format="binary32")
    assert choose_window(np.full(200_000, 0.5), format="bfloat16").window == Jagged(7)
    assert not choose_window(np.full(200_000, 1 - 2.0**-24), format="binary32")


def test_on_a_gpu_blocks_are_whole_tiles_even_where_others_need_no_terms(rng):
    resets = rng.uniform(0, 0.9, 1000)
    resets[::100] = 0
    by_device = {device: choose_window(resets, 1e-5, device=device) for device in (None, "cpu", "gpu")}
    assert all(found.candidates == by_device[None].candidates for found in by_device.values())
    assert by_device[None].recommended == by_device["cpu"].recommended
    assert by_device["cpu"].window.terms == 0
    best = by_device["gpu"].recommended
    assert best.window.block % 16 == 0
    assert truncation_norm(resets, best.window, relative_to="state") <= best.error <= 1e-5
    for device, words in ((None, "and in whole tiles"), ("cpu", "loses less"), ("gpu", "(in whole tiles of a GPU")):
        found = choose_window(0.9, format="bfloat16", device=device)
        assert (found.recommended.window, words in str(found)) == (Jagged(64), True)
    with pytest.raises(OptionError, match="'cpu', 'gpu'"):
        choose_window(0.9, 0.1, device="cuda")


@pytest.mark.parametrize("kind", ["constant", "repeating", "uneven"])
def test_a_limit_that_is_the_loss_itself_is_kept_without_the_whole_sequence(kind, rng, monkeypatch):
    monkeypatch.setattr(window_search, "truncation_norm", None)
    n, lags = 300, 7
    a = {"constant": np.full(n, 0.9), "repeating": np.tile([0.9, 0.7, 0.8], n // 3), "uneven": rng.uniform(0.5, 0.9, n)}
    windows = np.lib.stride_tricks.sliding_window_view(a[kind][1:], lags)
    tol = round_up(max(math.prod(map(Fraction, factors)) for factors in windows.tolist()))
    found, fewer = choose_window(a[kind], tol), choose_window(a[kind], np.nextafter(tol, 0))
    assert Candidate(Uniform(lags), tol) in found.candidates
    assert all(candidate.window != Uniform(lags) and candidate.error < tol for candidate in fewer.candidates)


@pytest.mark.parametrize("cached", [1, 2**16])
@pytest.mark.parametrize("relative_to", ["state", "input"])
def test_a_window_for_segments_is_good_for_each_of_them(relative_to, cached, rng, monkeypatch):
    monkeypatch.setattr(window_rows, "CACHED", cached)
    for case in range(10):
        offsets = np.append(0, np.sort(rng.integers(0, 25, int(rng.integers(0, 6)))))
        offsets = np.append(offsets, 24)
        a = rng.uniform(-1, 1, 24) * rng.choice([0.3, 0.9, 1])
        if case % 3 == 0:
            a[rng.integers(24, size=3)] = 0
        block, tol = [None, 3][case % 2], float(rng.choice([0, 1e-3, 0.05, 0.4]))
        found = choose_window(a, tol, relative_to=relative_to, block=block, offsets=offsets)
        assert kinds(found) == best(a, tol, relative_to, block, offsets)
        for candidate in found.candidates:
            exact = truncation_norm(a, candidate.window, relative_to=relative_to, offsets=offsets)
            assert exact <= candidate.error <= tol
            assert candidate.error <= exact * (1 + 1e-12)


@pytest.mark.parametrize("offsets", [None, [0, 5, 5, 40, 90]])
def test_many_sequences_are_searched_as_one_by_one(offsets, rng, monkeypatch):
    a = rng.uniform(0, 0.99, (2, 90, 3))
    a[1, 60:, 2] = 0.999
    together = choose_window(a, 1e-3, axis=1, offsets=offsets)
    apart = [choose_window(a[i, :, k], 1e-3, offsets=offsets) for i in range(2) for k in range(3)]
    assert kinds(together)[Uniform].lags == max(kinds(each)[Uniform].lags for each in apart)
    assert together.worst[0] == 1
    assert together.worst[2] == 2
    assert together.worst[1] > 60
    monkeypatch.setattr(window_rows, "CACHED", 100)
    assert choose_window(a, 1e-3, axis=1, offsets=offsets) == together


def test_the_step_where_a_segment_loses_most_is_one_of_the_whole_sequence():
    a = np.full(60, 0.5)
    a[45:52] = 0.9
    assert choose_window(a, 1e-2, offsets=[0, 17, 40, 60]).worst[0] in range(45, 60)


def test_offsets_of_a_bound_are_refused():
    with pytest.raises(OptionError, match="offsets go with coefficients"):
        choose_window(0.9, 0.1, offsets=[0, 3])
    with pytest.raises(ShapeError, match="end with 3"):
        choose_window([0.5] * 3, 0.1, offsets=[0, 2])


@pytest.mark.parametrize("relative_to", ["state", "input"])
def test_memory_is_a_few_times_that_of_the_coefficients(relative_to, rng):
    a = rng.uniform(0.5, 0.99, (4, 1024, 256)).astype(np.float32)
    tracemalloc.start()
    choose_window(a, format="binary32", relative_to=relative_to, axis=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Logarithms are kept in float64, and with states as well. What is worked on at a time has 2^16 numbers.
    assert peak < (2 if relative_to == "state" else 4) * a.nbytes + 200 * 2**16


def test_what_is_recommended_is_the_fastest_window():
    found = choose_window(0.9, format="bfloat16")
    assert found.recommended == found.fastest
    record = found.to_dict()
    assert (record["fastest"], record["fastest_error"]) == ("Jagged(64)", found.fastest.error)
    assert choose_window(0.9, format="bfloat16", block=7).recommended.window == Jagged(7, 8)
    assert choose_window(1.0, format="bfloat16").recommended is None
