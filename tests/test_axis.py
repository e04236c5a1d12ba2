"""Time runs along `axis`, by default the last one, in every public function that takes arrays, as it does in `solve`.

The public names and their parameters are walked, so that a new function, or a new parameter, has to be put in one of
the lists below.
"""

import inspect
from dataclasses import is_dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import recfact as rf
from recfact import affine, data, factorizations, gpu
from recfact import precision as pr
from recfact.errors import OptionTypeError, ShapeError
from recfact.precision import exact

ROOMS = {
    "": rf,
    "affine.": affine,
    "data.": data,
    "factorizations.": factorizations,
    "gpu.": gpu,
    "pr.": pr,
    "exact.": exact,
}

TIMED = {"a", "u", "c", "v", "x", "kept", "computed", "chunks", "coefficients", "dt", "y"}
"""Parameters that hold a number for each step."""

OTHERS = {
    "accumulate", "algorithm", "algorithms", "axis", "bits", "block", "blocks", "carrier_solve", "cases", "casts",
    "channels", "counts", "device", "earlier", "enclosures", "eps", "exponent", "extended", "families", "finest",
    "fma", "format", "format_or_eps", "formats", "kept_norm", "kind", "lags", "later", "lengths", "local_solve",
    "lower", "method", "n", "name", "nu", "offsets", "ord", "out", "overflow", "precision", "processes", "progress",
    "relative", "relative_to", "return_state", "reverse", "rho", "rounding", "seed", "signed", "significand", "state",
    "states", "tau", "terms", "threads", "tol", "underflow", "upper", "window", "windows", "x0",
}  # fmt: skip
"""All the others."""

WITHOUT_TIME = {"pr.saturated"}
"""What looks at each number by itself."""

WINDOW = rf.Jagged(2)


def one_sequence():
    """Return what takes one sequence, called with given coefficients and inputs."""
    operators = ["TransferOperator", "KoggeStone", "BrentKung"]
    return {
        **{name: lambda a, _, name=name: getattr(rf, name)(a) for name in operators},
        "Hierarchical": lambda a, _: rf.Hierarchical(a, 2),
        "factorizations.BandedOperator": lambda a, _: factorizations.BandedOperator(a, 2),
        "factorizations.JaggedOperator": lambda a, _: factorizations.JaggedOperator(a, 2),
        "factorizations.truncate": lambda a, _: factorizations.truncate(a, WINDOW),
        "data.exponential_average": lambda a, u: data.exponential_average(abs(a), u, 1.0),
        "pr.choose_window": lambda a, _: pr.choose_window(a, 0.1),
        "pr.effective_horizon": lambda a, _: pr.effective_horizon(a, 0.1),
        "pr.posterior_truncation_bound": lambda a, u: pr.posterior_truncation_bound(a, u, WINDOW),
        "pr.truncation_norm": lambda a, _: pr.truncation_norm(a, WINDOW),
        "pr.truncation_witness": lambda a, _: pr.truncation_witness(a, WINDOW),
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


def table(a, _u, _x0, axis=-1):
    rows = pr.materialization_table({"mine": a}, block=a.shape[axis], format="float16", accumulate=None, axis=axis).rows
    return (np.array([row.mean for row in rows]),)


SEVERAL = {
    "solve": lambda a, u, x0, **options: (rf.solve(a, u, x0=x0, window=WINDOW, **options),),
    "solve_chunks": lambda a, u, x0, **options: (*rf.solve_chunks([(a, u)], x0=x0, window=WINDOW, **options),),
    "materialize": lambda a, _u, _x0, **options: (rf.materialize(a, **options),),
    "affine.summarise": lambda a, u, _x0, **options: affine.summarise(a, u, block=2, **options),
    "affine.carriers": lambda a, u, x0, **options: (affine.carriers(a, u, x0=x0, **options),),
    "pr.backward_error": backward,
    "pr.backward_error_bound": lambda a, u, x0, **options: (
        pr.backward_error_bound(a, u, u, "float16", x0=x0, **options),
    ),
    "pr.condition": condition,
    "pr.counted_bound": lambda a, u, _, axis=-1, **options: (
        pr.counted_bound(a, u, counts(a, u, axis), "float16", axis=axis, **options),
    ),
    "pr.engine_bound": lambda a, u, x0, **options: (pr.engine_bound(a, u, x0=x0, **NARROW, **options),),
    "pr.forward_bound": lambda a, u, x0, **options: (pr.forward_bound(a, u, x0=x0, **NARROW, **options),),
    "pr.materialization_bound": lambda a, _u, _x0, **options: (
        pr.materialization_bound(a, format="float16", **options),
    ),
    "pr.materialization_errors": errors,
    "pr.materialization_table": table,
    "pr.mixed_precision_bound": lambda a, u, x0, **options: (
        pr.mixed_precision_bound(a, u, x0=x0, **NARROW, **options),
    ),
    "pr.mixed_precision_solve": lambda a, u, x0, **options: (
        pr.mixed_precision_solve(a, u, x0=x0, **NARROW, **options),
    ),
    "pr.rounded_materialize": lambda a, _u, _x0, **options: (pr.rounded_materialize(a, format="float16", **options),),
    "pr.rounded_solve": lambda a, u, x0, **options: (pr.rounded_solve(a, u, x0=x0, **NARROW, **options),),
    "pr.running_bound": lambda a, u, x0, **options: pr.running_bound(a, u, x0=x0, **NARROW, **options),
    "pr.verify": verify,
    "exact.solve": lambda a, u, x0, **options: (exact.solve(a, u, WINDOW, x0, **options),),
}
ON_A_GPU = {"gpu.solve"}  # whose tests are their own

POOLED = {"pr.materialization_table"}
"""What returns statistics of all sequences together."""


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
    assert timed == SEVERAL.keys() | ONE_SEQUENCE.keys() | ON_A_GPU | WITHOUT_TIME
    assert {name for name, parameters in PUBLIC.items() if "axis" in parameters} == SEVERAL.keys() | ON_A_GPU
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


@pytest.mark.parametrize("name", SEVERAL)
def test_the_last_axis_is_meant_if_none_is_named(name, problem):
    a, u = np.broadcast_arrays(problem.a, problem.u)
    call, x0 = SEVERAL[name], problem.x0[2]
    for given, default in zip(call(a, u, x0, axis=2), call(a, u, x0), strict=True):
        np.testing.assert_array_equal(given, default)


@pytest.mark.parametrize("name", sorted(SEVERAL.keys() - {"pr.counted_bound", "pr.materialization_table"}))
def test_an_axis_that_there_is_not(name, problem):
    a, u = np.broadcast_arrays(problem.a, problem.u)
    for axis, error in ((3, ShapeError), (-4, ShapeError), (0.5, OptionTypeError), (True, OptionTypeError)):
        with pytest.raises(error, match="axis must be"):
            SEVERAL[name](a, u, None, axis=axis)


def test_an_axis_that_there_is_not_where_arrays_come_otherwise(problem):
    with pytest.raises(ShapeError, match="axis must be"):
        pr.counted_bound(problem.a, problem.u, np.zeros((5, 5), int), "float16", axis=3)
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
    options = {"format": "float16", "window": rf.Full(), "casts": (), "axis": axis}
    np.testing.assert_array_equal(pr.mixed_precision_solve(a, u, x0=problem.x0[axis], **options), x)
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
    assert "sequential in binary64: Jagged(block=16, terms=1), 4 x 200 states" in str(v)
    assert "at index" in str(v)
