"""The kernels against the plain loop in float64: their source, compiled for the CPU and run on its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from gpu.bare_run import need_compiler, run_bare
from gpu.bounds import bound, loop
from gpu.cases import COMPUTED, H100, LAYOUTS, NUMPY, Case, channel_axis, random_numbers

from recfact.gpu.multiprocessors import Device
from recfact.gpu.plans import Launch
from recfact.windows import Full, Jagged, Uniform, Window

NO_TENSOR_CORES = Device((7, 0), 132)
FEW = Device((9, 0), 1)


@pytest.fixture(autouse=True)
def compiler() -> None:
    need_compiler()


def framed(shape: tuple[int, ...], dtype: str, shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return an array full of NaN, aligned as GPUs' are, in a frame of the same: what is outside must stay.

    It may begin some numbers later than where it would be aligned.
    """
    count = int(np.prod(shape))
    size = NUMPY[dtype].itemsize
    memory = np.full((count + shift) * size + 768, 255, np.uint8)
    start = 256 + -memory.ctypes.data % 256 + shift * size
    return memory, memory[start : start + count * size].view(NUMPY[dtype]).reshape(shape)


def make_case(
    layout: str,
    heads: int,
    n: int,
    d: int,
    dtype: str,
    *,
    shared: bool = True,
    a_dtype: str | None = None,
    out: str | None = None,
    initial: bool = False,
    seed: int = 0,
    size: float = 0.95,
    shifts: Mapping[str, int] | None = None,
) -> Case:
    shift = {"a": 0, "u": 0, "x": 0} | dict(shifts or {})
    rng = np.random.default_rng(seed)
    make, axis = LAYOUTS[layout]
    shape = make(heads, n, d)
    a_shape = list(shape)
    if shared:
        a_shape[channel_axis(layout)] = 1
    _, a = framed(tuple(a_shape), a_dtype or dtype, shift["a"])
    a[...] = random_numbers(rng, a_shape, a_dtype or dtype, size)
    _, u = framed(shape, dtype, shift["u"])
    u[...] = random_numbers(rng, shape, dtype)
    x0 = None
    if initial:
        x0_shape = list(shape)
        x0_shape[axis] = 1
        x0 = random_numbers(rng, x0_shape, COMPUTED.get(dtype, dtype))
    return Case(a, u, framed(shape, out or dtype, shift["x"])[1], axis, x0)


def solve(
    case: Case, window: Window, *, reverse: bool = False, device: Device = H100, precision: str = "full"
) -> Launch:
    """Run a case's plan, and see that it wrote all of the result and nothing else."""
    launch = case.plan(window, reverse=reverse, device=device, precision=precision)
    frame = case.x
    while isinstance(frame.base, np.ndarray):
        frame = frame.base
    before = [array.tobytes() for array in (case.a, case.u)]
    arrays = {"a": case.a, "u": case.u, "x": case.x}
    if case.x0 is not None:
        arrays["x0"] = case.x0
    run_bare(launch, arrays)
    assert [array.tobytes() for array in (case.a, case.u)] == before
    start = case.x.ctypes.data - frame.ctypes.data
    if case.x.flags.c_contiguous and frame is not case.x:
        assert (frame[:start] == 255).all()
        assert (frame[start + case.x.nbytes :] == 255).all()
    return launch


def check(case: Case, window: Window, **options) -> Launch:
    launch = solve(case, window, **options)
    compare(launch, case, window, options.get("reverse", False))
    return launch


def compare(launch: Launch, case: Case, window: Window, reverse: bool = False) -> None:
    """See that a solved case is within its bound of the plain loop."""
    x, most = bound(launch, case, window, reverse)
    got = np.moveaxis(case.x, case.axis, 0).astype(x.dtype)
    error = np.abs(got - x)
    place = np.unravel_index(np.argmax(np.where(error <= most, 0, np.nan_to_num(error, nan=np.inf))), error.shape)
    assert (error <= most).all(), f"{launch.kernel} at {place}: {got[place]} for {x[place]}, may be {most[place]} off"


def test_sliding_with_slots_in_global_memory():
    for reverse in (False, True):
        case = make_case("head, time, channel", 3, 700, 4, "float32", initial=not reverse, size=0.999)
        launch = check(case, Uniform(200), reverse=reverse)
        assert launch.scratch


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_bit_of_sweep_depends_on_how_time_is_cut(layout, reverse):
    case = make_case(layout, 2, 700, 3, "float32", initial=not reverse)
    results, counts = [], []
    for multiprocessors in (1, 132):
        launch = solve(case, Jagged(4), reverse=reverse, device=Device((9, 0), multiprocessors))
        assert launch.kernel == "sweep"
        counts.append(next(argument.value for argument in launch.arguments if argument.name == "segments"))
        results.append(case.x.copy())
    assert counts[0] < counts[1]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_too_small_for_float16_are_kept(layout):
    # An impulse fades within 15 steps to what float16 has but where the product of coefficients is below it.
    case = make_case(layout, 1, 48, 16, "float16")
    case.a[...] = 0.25
    case.u[...] = 0
    np.moveaxis(case.u, case.axis, 0)[0] = 49152
    assert solve(case, Jagged(16)).kernel == "b2p"
    got = np.moveaxis(case.x, case.axis, 0).reshape(48, -1)
    np.testing.assert_array_equal(got[:16], np.ldexp(49152.0, -2 * np.arange(16))[:, None].repeat(16, 1).astype("f2"))
    assert float(got[13].max()) == 49152 * 2.0**-26


def test_storing_the_factor_in_two_terms_costs_less_than_in_one():
    # float32 results show more than the bound of two terms allows, if the factor was stored in one.
    case = make_case("head, time, channel", 4, 304, 16, "bfloat16", out="float32", a_dtype="float32")
    x, most = bound(check(case, Jagged(16)), case, Jagged(16), False)
    check(case, Jagged(16), precision="paper")
    assert (np.abs(np.moveaxis(case.x, 1, 0) - x) > most).any()


KERNELS = {
    "sweep": ("float32", Jagged(16), 83, H100),
    "sweep full": ("float32", Full(), 83, H100),
    "sliding": ("float32", Jagged(16, 2), 83, H100),
    "sliding lags": ("float32", Uniform(6), 83, H100),
    "chain": ("float32", Full(), 600, H100),
    "b2p": ("bfloat16", Jagged(16), 83, H100),
    "b2p half": ("float16", Jagged(16), 83, H100),
    "b2p long": ("bfloat16", Jagged(32), 83, H100),
}


def disturb(case: Case, kind: str) -> None:
    """Put numbers into a case that make a careless kernel spread NaN."""
    a, u = case.a, case.u
    limit = 6e4 if u.dtype == np.float16 else 1e30
    match kind:
        case "inputs":
            u[0, 37, 3], u[1, 20, 5], u[1, 70, 0] = np.nan, np.inf, -np.inf
        case "coefficients":
            # The third is the first of a block in both directions: what its block reaches from zero does not see it.
            a[0, 37], a[1, 21], a[0, 48] = np.nan, np.inf, np.inf
        case "first":
            a[:, 0] = np.nan
        case "resets":
            u[0, 10, 3], a[0, 20], a[0, 30], a[1, 5::7] = np.inf, 0, 0, 0
        case "growth":
            a[...] = 2.5
            a[:, ::9] = 0
        case "overflow of products":
            a[:, 5:12], a[:, 12], u[:, :12] = 200, 0, 0
        case "large":
            a[...], a[:, ::3], u[:, : len(u[0]) // 2] = limit, 0, 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "kind", ["inputs", "coefficients", "first", "resets", "growth", "overflow of products", "large"]
)
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_not_finite_goes_where_the_loop_sends_it(name, kind):
    dtype, window, n, device = KERNELS[name]
    for reverse in (False, True):
        case = make_case("head, time, channel", 2, n, 16, dtype)
        disturb(case, kind)
        launch = solve(case, window, reverse=reverse, device=device)
        assert launch.kernel == name.split()[0]
        with np.errstate(all="ignore"):
            x, most = bound(launch, case, window, reverse)
            a, u = (np.moveaxis(np.broadcast_to(v, case.x.shape), 1, 0).astype(np.float32) for v in (case.a, case.u))
            plain = loop(a, u, window, None, reverse).astype(case.x.dtype).astype(np.float64)
            got = np.moveaxis(case.x, 1, 0).astype(np.float64)
            # A sum in another order may overflow later than the loop, and is right then.
            right = np.abs(got - x) <= most
        same = (got == plain) | (np.isnan(got) & np.isnan(plain))
        assert (right | (same & ~np.isfinite(plain))).all()
        if kind == "first" and not reverse:
            assert np.isfinite(got).all()


# Number type, window, steps, inputs and coefficients at steps; other inputs are 0, and other coefficients 1.
ON_THE_WAY: dict[str, tuple[str, Window, int, dict[int, float], dict[int, float]]] = {
    "chain": ("float32", Full(), 3000, {1: 1e20}, {1030: 1e30, 1031: 1e-30}),
    # Of 64 steps to a tile and 4 to a warp: all of it is small but what enters.
    "chain from outside": ("float32", Full(), 3000, {1: 1e22}, {1030: 1e17, 1031: 1e-17}),
    # What enters is small, but products are large, in a warp or over some.
    "chain by a product": ("float32", Full(), 3000, {1: 1e12}, {1030: 1e30, 1031: 1e-30}),
    "chain by products": ("float32", Full(), 3000, {1: 1e12}, {1030: 1e16, 1034: 1e16, 1038: 1e-32}),
    # All in one tile: what entered is forgotten, and no product from the tile's start is large.
    "chain in a tile": ("float32", Full(), 3000, {1030: 1e17}, {1026: 0, 1033: 1e30, 1034: 1e-30}),
    "sliding": ("float32", Uniform(7), 100, {20: 1e20}, {22: 1e30, 23: 1e-30}),
    "sliding blocks": ("float32", Jagged(4, 3), 100, {20: 1e20}, {25: 1e30, 26: 1e-30}),
    "sliding complex": ("complex64", Uniform(7), 100, {20: 1e20}, {22: 1e30, 23: 1e-30}),
    # The block's state is 0, for what it reaches itself and what comes from the block before cancel.
    "b2p": ("bfloat16", Jagged(32), 96, {31: -1e20, 32: 1e20}, {49: 1e30, 50: 1e-30}),
}


@pytest.mark.parametrize("name", ON_THE_WAY)
def test_a_state_that_overflows_on_its_way_stays_infinite(name):
    dtype, window, n, inputs, coefficients = ON_THE_WAY[name]
    for reverse in (False, True):
        case = make_case("head, time, channel", 1, n, 16, dtype)
        a, u = (array[0, ::-1] if reverse else array[0] for array in (case.a, case.u))
        a[...], u[...] = 1, 0
        for step, value in inputs.items():
            u[step] = value
        for step, value in coefficients.items():
            a[step - reverse] = value  # the coefficient into a step stands at the one before it in reverse
        with np.errstate(all="ignore"):
            assert solve(case, window, reverse=reverse).kernel == name.split()[0]
            wide = np.complex64 if dtype == "complex64" else np.float32
            a, u = (np.moveaxis(np.broadcast_to(v, case.x.shape), 1, 0).astype(wide) for v in (case.a, case.u))
            plain = loop(a, u, window, None, reverse)
        got = np.moveaxis(case.x, 1, 0).astype(wide)
        assert not np.isfinite(plain).all()
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(plain))


def test_large_states_pass_from_tile_to_tile():
    # Above what tiles pass on at once, and back below.
    case = make_case("head, time, channel", 2, 3000, 16, "float32")
    case.a[...], case.u[...] = 1, 0
    case.u[:, 5], case.a[:, 700], case.a[:, 1100], case.a[:, 1900] = 2.0**70, 0.5**60, 2.0**65, 0.5**70
    assert check(case, Full()).kernel == "chain"


def test_strided_arrays():
    rng = np.random.default_rng(0)
    for dtype in ("float32", "bfloat16"):
        u = random_numbers(rng, (6, 200, 40), dtype)[::2, ::-1, ::2]
        a = random_numbers(rng, (6, 400, 1), dtype, 0.9)[::2, ::2]
        x = np.full((3, 20, 200), np.nan, NUMPY[dtype]).transpose(0, 2, 1)
        check(Case(a, u, x, 1), Jagged(16))


@pytest.mark.parametrize("which", ["a", "u", "x", "x0", "all"])
@pytest.mark.parametrize("kernel", ["sweep", "sliding", "chain", "b2p"])
def test_arrays_walked_backwards_along_axes_beside_time(kernel, which):
    dtype, window = {
        "sweep": ("float32", Jagged(8)),
        "sliding": ("float32", Uniform(9)),
        "chain": ("bfloat16", Full()),
        "b2p": ("bfloat16", Jagged(16)),
    }[kernel]
    device = {"chain": NO_TENSOR_CORES, "b2p": H100}.get(kernel, FEW)
    for reverse in (False, True) if which != "x0" else (False,):
        case = make_case("head, time, channel", 3, 400, 16, dtype, initial=not reverse)
        flipped = {
            name: np.flip(array, (0, 2)) if which in (name, "all") else array
            for name, array in (("a", case.a), ("u", case.u), ("x", case.x), ("x0", case.x0))
            if array is not None
        }
        launch = check(replace(case, **flipped), window, reverse=reverse, device=device)
        assert launch.kernel == (kernel if which in ("a", "x0", "all") or kernel != "b2p" else "sweep")
