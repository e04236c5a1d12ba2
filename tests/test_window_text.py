"""The text form of a window stands wherever a window does."""

import inspect

import numpy as np
import pytest

import recfact as rf
from recfact import gpu
from recfact import precision as pr
from recfact.errors import OptionError
from recfact.windows import check_window, window_of, window_text

RNG = np.random.default_rng(0)
A, U = RNG.uniform(0, 1, 12), RNG.standard_normal(12)
WINDOWS = [rf.Full(), rf.Uniform(3), rf.Jagged(4), rf.Jagged(2, 3)]

# What each public function with a `window` says of one.
CALLS = {
    "solve": lambda window: rf.solve(A, U, window=window),
    "ewm": lambda window: rf.ewm(U, alpha=0.5, window=window),
    "solve_chunks": lambda window: np.concatenate(list(rf.solve_chunks([(A, U)], window=window))),
    "TransferOperator.truncate": lambda window: rf.TransferOperator(A).truncate(window) @ U,
    "State": lambda window: rf.State(window, np.zeros((0, 2) if window in (WINDOWS[1], "uniform:3") else 0)).window,
    "phalanx": lambda window: rf.phalanx(A[:, None], None, None, U[:, None, None], window=window),
    "jvp": lambda window: rf.gradients.jvp(A, U, U, A, window=window),
    "vjp": lambda window: rf.gradients.vjp(A, U, U, window=window),
    "cast_counts": lambda window: pr.cast_counts(12, window=window),
    "engine_bound": lambda window: pr.engine_bound(A, U, "float64", window=window),
    "factor_counts": lambda window: pr.factor_counts("sequential", 12, window=window),
    "stochastic_bound": lambda window: pr.stochastic_bound(A, U, "float32", window=window),
    "forward_bound": lambda window: pr.forward_bound(A, U, "float32", window=window),
    "pointwise_truncation_bound": lambda window: pr.pointwise_truncation_bound(0.9, window, 12),
    "posterior_truncation_bound": lambda window: pr.posterior_truncation_bound(A, U, window),
    "rounded_solve": lambda window: pr.rounded_solve(A, U, "float32", window=window),
    "running_bound": lambda window: pr.running_bound(A, U, "float32", window=window)[1],
    "truncation_bound": lambda window: pr.truncation_bound(0.9, window, n=12),
    "truncation_norm": lambda window: pr.truncation_norm(A, window),
    "truncation_witness": lambda window: pr.truncation_witness(A, window),
    "verify": lambda window: str(pr.verify(A, U, window=window)),
    "verify_many": lambda window: str(
        pr.verify_many("float16", "sequential", windows=window, cases=20, lengths=(6,), processes=1)
    ),
    "enclose": lambda window: str(list(pr.exact.enclose(A, U, window))),
    "measure": lambda window: pr.exact.measure(A, U, rf.solve(A, U, window=window), window).upper,
    "exact.solve": lambda window: pr.exact.solve(A, U, window),
    "truncation_error": lambda window: pr.exact.truncation_error(A, U, window).upper,
}
RESULTS = {"Verification"}  # what functions return, not what a user makes
ON_A_GPU = {"gpu.solve", "gpu.tune", "gpu.tune_phalanx", "gpu.warm_up", "gpu.warm_up_phalanx"}
"""What checks its window before it looks for a GPU."""


def takers():
    """Yield the names of what takes a window."""
    for room, prefix in ((rf, ""), (rf.gradients, ""), (pr, ""), (pr.exact, "exact."), (gpu, "gpu.")):
        for name in room.__all__:
            value = getattr(room, name)
            if callable(value) and {"window", "windows"} & set(inspect.signature(value).parameters):
                yield prefix + name if prefix + name in CALLS or prefix == "gpu." else name
            if inspect.isclass(value):
                for method, function in inspect.getmembers(value, inspect.isfunction):
                    if not method.startswith("_") and "window" in inspect.signature(function).parameters:
                        yield f"{name}.{method}"


def test_every_public_function_with_a_window_is_called_here():
    assert set(takers()) - RESULTS - ON_A_GPU == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_text_says_what_the_window_says(name):
    tried = 0
    for window in WINDOWS:
        try:
            expected = CALLS[name](window)
        except OptionError:  # not all functions take all windows
            with pytest.raises(OptionError):
                CALLS[name](window_text(window))
            continue
        found = CALLS[name](window_text(window))
        np.testing.assert_equal(found, expected)
        tried += 1
    assert tried


@pytest.mark.parametrize("name", [*CALLS])
def test_a_text_that_names_no_window_is_refused(name):
    with pytest.raises(OptionError, match=r"jagged:BLOCK.*got 'jagged:0'"):
        CALLS[name]("jagged:0")


def test_a_gpu_reads_it_too():
    with pytest.raises(OptionError, match="jagged:BLOCK"):
        gpu.solve(A, U, window="jagged")


def test_round_trip():
    for window in WINDOWS:
        assert window_of(window_text(window)) == window == check_window(window_text(window))
