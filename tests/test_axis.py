"""Time runs along `axis`, by default the last one, in every public function that takes arrays, as it does in `solve`.

The public names and their parameters are walked, so that a new function, or a new parameter, has to be put in one of
the lists below.
"""

import inspect
from dataclasses import is_dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import recfact as rf
from recfact import affine, data, factorizations, gpu, gradients, plot
from recfact import precision as pr
from recfact.errors import DTypeError, OptionError, OptionTypeError, ShapeError
from recfact.precision import exact

ROOMS = {
    "": rf,
    "affine.": affine,
    "data.": data,
    "factorizations.": factorizations,
    "gpu.": gpu,
    "gradients.": gradients,
    "plot.": plot,
    "pr.": pr,
    "exact.": exact,
}

TIMED = {
    "a",
    "values",
    "u",
    "c",
    "v",
    "x",
    "kept",
    "computed",
    "chunks",
    "coefficients",
    "dt",
    "y",
    "g",
    "ta",
    "tu",
    "q",
    "k",
    "time",
    "value",
}
"""Parameters that hold a number for each step."""

OTHERS = {
    "accumulate", "adjust", "algorithm", "algorithms", "alpha", "axis", "bias", "bits", "block", "blocks",
    "carrier_solve", "cases", "casts", "channels", "com", "counts", "device", "earlier", "enclosures", "eps",
    "exponent", "extended", "families", "finest", "flat", "fma", "format", "format_or_eps", "formats", "g_state",
    "gradients", "halflife", "horizons", "ignore_na", "kept_norm", "kind", "kinds",
    "lags", "later", "lengths", "local_solve", "lower", "method", "min_periods", "n",
    "name", "nu", "offsets", "ord", "out", "overflow", "precision", "probability",
    "processes", "progress", "relative", "relative_to",
    "return_state", "reverse", "rho", "rounding", "seed", "signed", "significand", "span", "stat", "state", "states",
    "table", "tau", "terms", "threads", "times", "title", "tol", "tx0", "unit",
    "underflow", "upper", "window", "windows", "x0",
}  # fmt: skip
"""All the others."""

WITHOUT_TIME = {"pr.saturated"}
"""What looks at each number by itself."""

WINDOW = rf.Jagged(2)


MATRICES = ("operator", "kogge_stone", "brent_kung", "blocks", "windows", "overview")
"""Figures of a matrix."""


def one_sequence():
    """Return what takes one sequence, called with given coefficients and inputs."""
    operators = ["TransferOperator", "KoggeStone", "BrentKung"]
    return {
        **{name: lambda a, _, name=name: getattr(rf, name)(a) for name in operators},
        "Hierarchical": lambda a, _: rf.Hierarchical(a, 2),
        "factorizations.BandedOperator": lambda a, _: factorizations.BandedOperator(a, 2),
        "factorizations.JaggedOperator": lambda a, _: factorizations.JaggedOperator(a, 2),
        "factorizations.WholeOperator": lambda a, _: factorizations.WholeOperator(a),
        "factorizations.truncate": lambda a, _: factorizations.truncate(a, WINDOW),
        **{f"plot.{name}": lambda a, _, name=name: getattr(plot, name)(a) for name in MATRICES},
        "plot.errors": plot.errors,
        "plot.solution": plot.solution,
        "plot.bounds": plot.bounds,
        "data.exponential_average": lambda a, u: data.exponential_average(abs(a), u, 1.0),
        "exact.enclose": lambda a, u: list(exact.enclose(a, u)),
        "exact.measure": lambda a, u: exact.measure(a, u, u),
        "exact.truncation_error": lambda a, u: exact.truncation_error(a, u, WINDOW),
    }


ONE_SEQUENCE = one_sequence()
OPERATORS = {name for name in ONE_SEQUENCE if not name.startswith(("data.", "pr.", "exact."))}

# --- what takes several sequences: the numbers that it returns ---

NARROW = {"format": "float16", "window": WINDOW}


def condition(*arrays, **options):
    c = pr.condition(*arrays, **options)
    return c.normwise, c.skeel, c.mixed, c.componentwise


def backward(a, u, x0, **options):
    error = pr.backward_error(a, u, u, x0, **options)
    return error.relative, error.da, error.du


def verify(a, u, x0, **options):
    return (pr.verify(a, u, x0=x0, **NARROW, **options).x,)


def errors(a, _u, _x0, **options):
    found = pr.materialization_errors(a, format="float16", **options)
    return found.computed, found.relative


def counts(a, u, axis):
    n = np.broadcast_shapes(a.shape, u.shape)[axis]
    return pr.factor_counts("engine", n)


def spread(a, _u, _x0, **options):
    found = pr.spread(a, **options)
    return found.by_sequence, found.steps


def choose(a, _u, _x0, **options):
    found = pr.choose_window(a, 0.1, **options)
    return (np.array([found.error]),)


def table(a, _u, _x0, axis=-1):
    rows = pr.materialization_table({"mine": a}, block=a.shape[axis], format="float16", axis=axis).rows
    return (np.array([row.mean for row in rows]),)


def derivative(a, u, x0, **options):
    return (gradients.jvp(a, u, u, u + 1, x0=x0, tx0=x0, window=WINDOW, **options),)


def transposed_derivative(a, u, x0, **options):
    if isinstance(a, np.ndarray) and isinstance(u, np.ndarray):  # gradients have the shape of what they are for
        a, u = np.broadcast_arrays(a, u)
    return gradients.vjp(a, u, u, x0=x0, window=WINDOW, **options)[:2]


SEVERAL = {
    "solve": lambda a, u, x0, **options: (rf.solve(a, u, x0=x0, window=WINDOW, **options),),
    "solve_chunks": lambda a, u, x0, **options: (*rf.solve_chunks([(a, u)], x0=x0, window=WINDOW, **options),),
    "materialize": lambda a, _u, _x0, **options: (rf.materialize(a, **options),),
    "ewm": lambda _a, u, _x0, **options: (rf.ewm(u, span=2.0, **options),),
    "affine.summarise": lambda a, u, _x0, **options: affine.summarise(a, u, block=2, **options),
    "affine.carriers": lambda a, u, x0, **options: (affine.carriers(a, u, x0=x0, **options),),
    "gradients.jvp": derivative,
    "gradients.vjp": transposed_derivative,
    "pr.backward_error": backward,
    "pr.backward_error_bound": lambda a, u, x0, **options: (
        pr.backward_error_bound(a, u, u, "float16", x0=x0, **options),
    ),
    "pr.choose_window": choose,
    "pr.condition": condition,
    "pr.effective_horizon": lambda a, _u, _x0, **options: (pr.effective_horizon(a, 0.1, **options).lags,),
    "pr.engine_bound": lambda a, u, x0, **options: (pr.engine_bound(a, u, x0=x0, **NARROW, **options),),
    "pr.forward_bound": lambda a, u, x0, **options: (pr.forward_bound(a, u, x0=x0, **NARROW, **options),),
    "pr.stochastic_bound": lambda a, u, x0, **options: (pr.stochastic_bound(a, u, x0=x0, **NARROW, **options),),
    "pr.materialization_bound": lambda a, _u, _x0, **options: (
        pr.materialization_bound(a, format="float16", **options),
    ),
    "pr.materialization_errors": errors,
    "pr.materialization_table": table,
    "pr.posterior_truncation_bound": lambda a, u, _, **options: (
        pr.posterior_truncation_bound(a, u, WINDOW, **options),
    ),
    "pr.rounded_materialize": lambda a, _u, _x0, **options: (pr.rounded_materialize(a, format="float16", **options),),
    "pr.rounded_solve": lambda a, u, x0, **options: (pr.rounded_solve(a, u, x0=x0, **NARROW, **options),),
    "pr.spread": spread,
    "pr.running_bound": lambda a, u, x0, **options: pr.running_bound(a, u, x0=x0, **NARROW, **options),
    "pr.verify": verify,
    "pr.truncation_witness": lambda a, _u, _x0, **options: (pr.truncation_witness(a, WINDOW, **options),),
    "pr.truncation_norm": lambda a, _u, _x0, **options: (pr.truncation_norm(a, WINDOW, **options),),
    "exact.solve": lambda a, u, x0, **options: (exact.solve(a, u, WINDOW, x0, **options),),
}
ON_A_GPU = {"gpu.solve", "gpu.tune", "gpu.warm_up"}  # whose tests are their own
HEADS = {
    "phalanx",
    "gpu.tune_phalanx",
    "gpu.warm_up_phalanx",
}  # whose arrays have axes of heads and features, too: tests/test_phalanx.py

POOLED = {"pr.choose_window", "pr.materialization_table"}
"""What answers for all sequences together."""


def public():
    """Return the signatures of all public functions and classes, but for exceptions and what functions return."""
    found, seen = {}, []
    for room, module in ROOMS.items():
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            thing = getattr(module, name)
            made = inspect.isclass(thing) and (issubclass(thing, BaseException) or is_dataclass(thing))
            if callable(thing) and not made and thing not in seen:
                seen.append(thing)
                found[room + name] = inspect.signature(thing).parameters
    return found


PUBLIC = public()


def test_all_parameters_are_known():
    assert {name for parameters in PUBLIC.values() for name in parameters} <= TIMED | OTHERS


def test_all_that_take_a_number_for_each_step_have_an_axis_or_take_one_sequence():
    timed = {name for name, parameters in PUBLIC.items() if TIMED & set(parameters)}
    assert timed == SEVERAL.keys() | ONE_SEQUENCE.keys() | ON_A_GPU | WITHOUT_TIME | HEADS
    assert {name for name, parameters in PUBLIC.items() if "axis" in parameters} == SEVERAL.keys() | ON_A_GPU | HEADS
    for name in SEVERAL.keys() | ON_A_GPU:
        axis = PUBLIC[name]["axis"]
        assert (axis.kind, axis.default) == (axis.KEYWORD_ONLY, -1), name


@pytest.fixture
def problem(rng):
    """Three axes of three lengths, numbers of every format here, of which few steps are computed without rounding."""
    a = rng.choice([0.5, -0.5, 0.25, 1.0, -2.0, 0.0], (2, 1, 5), p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    u = rng.integers(-3, 4, (2, 3, 5)) / 2
    x0 = {axis: rng.integers(-2, 3, np.delete(u.shape, axis)) / 2 for axis in range(3)}
    return SimpleNamespace(a=a, u=u, x0=x0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(SEVERAL.keys() - POOLED))
def test_sequences_are_treated_as_they_are_alone(name, axis, problem):
    call, x0 = SEVERAL[name], problem.x0[axis]
    a, u = np.broadcast_arrays(problem.a, problem.u)
    whole = a if "u" not in PUBLIC[name] and name != "solve_chunks" else problem.a
    together = call(whole, problem.u, x0, axis=axis)
    for result, again in zip(together, call(whole, problem.u, x0, axis=axis - 3), strict=True):
        np.testing.assert_array_equal(result, again)
    rows_a, rows_u = np.moveaxis(a, axis, -1), np.moveaxis(u, axis, -1)
    for channel in np.ndindex(rows_u.shape[:-1]):
        alone = call(rows_a[channel], rows_u[channel], x0[channel])
        for result, expected in zip(together, alone, strict=True):
            along = np.moveaxis(result, axis, -1) if np.ndim(expected) == 1 else result
            np.testing.assert_array_equal(along[channel], expected)


SEGMENTED = sorted(
    name for name in SEVERAL if "offsets" in PUBLIC[name] and name.startswith("pr.") and "axis" in PUBLIC[name]
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("offsets", [[0, 1, 1, 4, 5], [0, 5], [0, 0, 2, 5]], ids=str)
@pytest.mark.parametrize("name", [name for name in SEGMENTED if name not in POOLED | {"pr.truncation_norm"}])
def test_segments_are_treated_as_they_are_alone(name, offsets, axis, problem):
    call = SEVERAL[name]
    a, u = (np.moveaxis(array, -1, axis) for array in np.broadcast_arrays(problem.a, problem.u))
    states = np.random.default_rng(3).integers(-2, 3, (*problem.u.shape[:-1], len(offsets) - 1)) / 2
    together = call(a, u, np.moveaxis(states, -1, axis), axis=axis, offsets=offsets)
    for index, (start, end) in enumerate(pairwise(offsets)):
        own, fed = (np.moveaxis(np.moveaxis(array, axis, -1)[..., start:end], -1, axis) for array in (a, u))
        for result, expected in zip(together, call(own, fed, states[..., index], axis=axis), strict=True):
            np.testing.assert_array_equal(
                np.moveaxis(np.moveaxis(result, axis, -1)[..., start:end], -1, axis), expected
            )


@pytest.mark.parametrize("relative_to", ["input", "state"])
@pytest.mark.parametrize("order", [1, 2, np.inf, "fro"])
def test_norms_of_segments_are_those_of_a_block_diagonal_matrix(order, relative_to, rng):
    a, offsets, window = rng.uniform(-1, 1.1, (3, 24)), [0, 9, 9, 10, 24], rf.Jagged(2)
    options = {"relative_to": relative_to, "ord": order}
    together = pr.truncation_norm(a, window, offsets=offsets, **options)
    alone = [pr.truncation_norm(a[:, start:end], window, **options) for start, end in pairwise(offsets)]
    expected = np.linalg.norm(alone, axis=0) if order == "fro" else np.max(alone, axis=0)
    np.testing.assert_allclose(together, expected, rtol=2.0**-50)
    if order != "fro":
        np.testing.assert_array_equal(together, expected)
    assert pr.truncation_norm(np.zeros((0, 4)), window, offsets=[0, 4]).shape == (0,)


def test_what_takes_segments():
    assert SEGMENTED == [
        "pr.choose_window", "pr.effective_horizon", "pr.engine_bound", "pr.forward_bound",
        "pr.posterior_truncation_bound", "pr.rounded_solve", "pr.running_bound", "pr.stochastic_bound",
        "pr.truncation_norm", "pr.truncation_witness", "pr.verify",
    ]  # fmt: skip


@pytest.mark.parametrize("name", SEGMENTED)
def test_segments_that_there_are_not(name, problem):
    a, u = np.broadcast_arrays(problem.a, problem.u)
    for offsets in ([0, 4], [0, 3, 2, 5], [[0, 5]], []):
        with pytest.raises(ShapeError, match="offsets must"):
            SEVERAL[name](a, u, None, offsets=offsets)
    with pytest.raises(OptionTypeError, match="offsets must be integers"):
        SEVERAL[name](a, u, None, offsets=[0.0, 5.0])
    if "x0" in PUBLIC[name]:
        with pytest.raises(ShapeError, match="x0 must broadcast"):
            SEVERAL[name](a, u, np.zeros((2, 3, 2)), offsets=[0, 1, 3, 5])


@pytest.mark.parametrize("name", SEVERAL)
def test_the_last_axis_is_meant_if_none_is_named(name, problem):
    a, u = np.broadcast_arrays(problem.a, problem.u)
    call, x0 = SEVERAL[name], problem.x0[2]
    for given, default in zip(call(a, u, x0, axis=2), call(a, u, x0), strict=True):
        np.testing.assert_array_equal(given, default)


@pytest.mark.parametrize("name", sorted(SEVERAL.keys() - {"pr.materialization_table"}))
def test_an_axis_that_there_is_not(name, problem):
    a, u = np.broadcast_arrays(problem.a, problem.u)
    for axis, error in ((3, ShapeError), (-4, ShapeError), (0.5, OptionTypeError), (True, OptionTypeError)):
        with pytest.raises(error, match="axis must be"):
            SEVERAL[name](a, u, None, axis=axis)


def test_an_axis_that_there_is_not_where_arrays_come_otherwise(problem):
    with pytest.raises(ShapeError, match="axis must be"):
        pr.materialization_table({"mine": problem.a}, axis=3)


@pytest.mark.parametrize("name", ONE_SEQUENCE)
def test_one_sequence_alone(name, problem):
    a, u = np.broadcast_arrays(problem.a, problem.u)
    ONE_SEQUENCE[name](a[0, 0], u[0, 0])
    again = "make an operator" if name in OPERATORS else "call it"
    for more in ((a, u), (a[0], u[0]), (a[:1, 0], u[:1, 0])):
        with pytest.raises(ShapeError, match=rf"one sequence.* got shapes? \(.*{again} for each channel"):
            ONE_SEQUENCE[name](*more)


def test_without_time(rng):
    x = rng.uniform(0, 10, (2, 3, 5))
    np.testing.assert_array_equal(pr.saturated(x.T, "bfloat16").T, pr.saturated(x, "bfloat16"))


# --- and what they say is true of what `solve` computes along the same axis ---


@pytest.fixture
def random(rng):
    a, u = rng.uniform(-1.2, 1.2, (4, 1, 30)).astype(np.float32), rng.standard_normal((4, 20, 30)).astype(np.float32)
    x0 = {axis: rng.standard_normal(np.delete(u.shape, axis)).astype(np.float32) for axis in range(3)}
    return SimpleNamespace(a=a, u=u, x0=x0)


def exactly(x):
    return np.vectorize(exact.Dyadic.of, otypes=[object])(x)


def distance(x, reference):
    return np.abs(exactly(x) - reference).astype(np.float64)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(4), rf.Uniform(12), rf.Jagged(2, 9)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_bounds_hold_for_the_states_of_solve(axis, window, random):
    a, u, options = random.a, random.u, {"x0": random.x0[axis], "axis": axis, "window": window}
    numbers = a.astype(float), u.astype(float)
    reference = exact.solve(a, u, window, random.x0[axis], axis=axis)
    x = rf.solve(a, u, **options)
    assert np.all(distance(x, reference) <= pr.engine_bound(*numbers, "float32", **options) * (1 + 2.0**-50))
    loop = rf.solve(a, u, algorithm="sequential", **options)
    np.testing.assert_array_equal(pr.rounded_solve(*numbers, "float32", **options), loop)
    running, bound = pr.running_bound(*numbers, "float32", **options)
    np.testing.assert_array_equal(running, loop)
    for each in (bound, pr.forward_bound(*numbers, "float32", **options)):
        assert np.all(distance(loop, reference) <= each * (1 + 2.0**-50))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_backward_errors_and_matrices_are_those_of_solve(axis, problem):
    a, u = np.broadcast_arrays(problem.a, problem.u)
    x = rf.solve(a, u, x0=problem.x0[axis], axis=axis)
    assert not pr.backward_error(a, u, x, problem.x0[axis], axis=axis).relative.any()
    np.testing.assert_array_equal(exact.solve(a, u, x0=problem.x0[axis], axis=axis), exactly(x))
    options = {"algorithm": "mixed-precision", "casts": (), "axis": axis}
    np.testing.assert_array_equal(pr.rounded_solve(a, u, "float16", x0=problem.x0[axis], **options), x)
    columns = np.moveaxis(u, axis, -1)[..., None]
    for matrices in (rf.materialize(a, axis=axis), pr.rounded_materialize(a, format="float16", axis=axis)):
        np.testing.assert_array_equal(np.moveaxis((matrices @ columns)[..., 0], -1, axis), rf.solve(a, u, axis=axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_condition_numbers_are_those_of_changes_of_what_solve_computes(axis, rng):
    """No change of every coefficient and input by a share `e` moves a state by more than `e` times its condition."""
    a, u = rng.uniform(0.1, 1, (2, 3, 5)), rng.uniform(0.1, 1, (2, 3, 5))
    c, e = pr.condition(a, u, axis=axis), 2.0**-20
    changed = (rf.solve(a * (1 + e), u * (1 + e), axis=axis) / rf.solve(a, u, axis=axis) - 1) / e
    # All numbers are positive, so this change is the largest one. A term of m factors changes by up to m e (1 + m e),
    # and m + 7 roundings of two solves each look like a change of 24 2^-53.
    np.testing.assert_allclose(changed, c.componentwise, rtol=5 * e + 24 * 2.0**-53 / e)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_verify_finds_what_solve_loses(axis, rng):
    """All that is computed here is exact, so that differences of what `solve` returns are the errors themselves."""
    a = rng.choice([0.5, -0.5, 1.0, -1.0], (4, 20, 3))
    u = rng.integers(-3, 4, a.shape).astype(float)
    lost = np.abs(rf.solve(a, u, axis=axis) - rf.solve(a, u, axis=axis, window=WINDOW))
    v = pr.verify(a, u, window=WINDOW, axis=axis)
    assert v.shape == a.shape
    assert v.truncation.largest == lost.max()
    assert lost.max() == 0 if v.truncation.at is None else lost[v.truncation.at] == lost.max()
    assert v.holds


def test_verify_finds_it_in_four_sequences_side_by_side(rng):
    a, u = rng.uniform(0.9, 1, (4, 200)), rng.standard_normal((4, 200))
    lost = np.abs(rf.solve(a, u) - rf.solve(a, u, window=rf.Jagged(16)))
    v = pr.verify(a, u, window=rf.Jagged(16))
    assert lost.max() > 1
    assert v.truncation.largest == pytest.approx(lost.max(), rel=200 * 2.0**-50)
    assert v.truncation.at == np.unravel_index(np.argmax(lost), lost.shape)
    assert "sequential in binary64: Jagged(16), 4 x 200 states" in str(v)
    assert "at index" in str(v)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(4), rf.Uniform(12), rf.Jagged(2, 9)], ids=str)
@pytest.mark.parametrize("algorithm", ["engine", "sequential", "mixed-precision"])
def test_verify_of_segments(algorithm, window, rng):
    if algorithm == "mixed-precision" and not isinstance(window, rf.Full | rf.Jagged):
        window = rf.Jagged(12)
    a, u = rng.uniform(0.7, 1, (3, 90)).astype(np.float32), rng.standard_normal((3, 90)).astype(np.float32)
    x0, offsets = rng.standard_normal((3, 5)), [0, 30, 30, 31, 78, 90]
    options = {"window": window, "algorithm": algorithm, "format": "float32"}
    v = pr.verify(a, u, x0=x0, offsets=offsets, **options)
    assert v.holds
    alone = [
        pr.verify(a[:, start:end], u[:, start:end], x0=x0[:, index], **options)
        for index, (start, end) in enumerate(pairwise(offsets))
    ]
    for kind in ("truncation", "rounding", "total"):
        largest = np.stack([getattr(w, kind).spread.by_sequence for w in alone if w.shape[-1]]).max(axis=0)
        if kind == "truncation" or algorithm != "engine":  # which may round segments in another order
            np.testing.assert_array_equal(getattr(v, kind).spread.by_sequence, largest)
    assert v.total.spread.worst == v.total.at
    if algorithm == "engine":  # any layout, which several sequences and segments may be solved in
        bound = pr.engine_bound(a, u, "float32", window=window, x0=x0.astype(np.float32), offsets=offsets)
        assert v.rounding.bound == bound.max()


def test_a_spread_names_the_worst_and_counts_the_others():
    values = np.array([[[1.0, 5.0], [2.0, 0.0], [3.0, 5.0]], [[0.0, 7.0], [9.0, np.inf], [3.0, 1.0]]])
    found = pr.spread(values, axis=1)
    assert found.by_sequence.tolist() == [[3, 5], [9, np.inf]]
    assert (found.largest, found.worst) == (np.inf, (1, 1, 1))
    assert found.ranked().tolist() == [[1, 1], [1, 0], [0, 1], [0, 0]]
    assert [found.above(limit) for limit in (2, 3, 5, 9, np.inf)] == [4, 3, 2, 1, 0]
    assert found.quantile(0, 0.5, 1) == [3, 5, np.inf]
    assert str(found) == "the largest of each of 4 sequences: quartiles 3, 5, 9, largest inf, of [1, :, 1]"
    assert pr.spread([1.0, np.nan, 0.5]).above(10) == 1
    assert pr.spread([3, 1, 3]).worst == (0,)
    nothing = pr.spread(np.zeros((3, 0)))
    assert (len(nothing), nothing.largest, str(nothing)) == (0, 0, "no sequences")
    with pytest.raises(OptionError, match="at least one"):
        nothing.worst  # noqa: B018
    with pytest.raises(DTypeError, match="real numbers"):
        pr.spread([1j])
