"""Every public function and method with what no one should pass as each of its arguments, found by introspection.

A call returns something, or raises one of recfact's exceptions: never a bare error of Python's, and it comes to an end.
"""

import inspect
import warnings
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from zlib import crc32

import mpmath
import numpy as np
import pytest
import sympy
from noted import noted

import recfact as rf
from recfact import precision as pr
from recfact.errors import RecfactError

S = sympy.Symbol("s")


def hostile():
    """Return the values anew, because generators end."""
    return [
        None, {}, [], (), set(), {1}, object(), int, 10**400, -(10**400), 2**63, -1, 0, True, 1e308, float("nan"),
        float("inf"), 1j, Decimal("sNaN"), Decimal("NaN"), Decimal("1e999999"), Decimal("1e-99999999"),
        Fraction(10**400, 3), 1 - Fraction(1, 2**200000), mpmath.mpf(2) ** 20000, mpmath.ldexp(1, 10**12),
        mpmath.iv.mpf([0, 1]), S, "", "0.9", "x" * 10**6, b"", np.datetime64("2020-01-01"), lambda x: x,
        (x for x in [1]), range(4), slice(3), Ellipsis, NotImplemented, np.array(3), np.zeros((0, 3)), np.zeros((4, 0)),
        np.ma.array([1, 2], mask=[1, 0]), [[1], [2, 3]], [None] * 4, ["a"] * 4, [{}] * 4, [object()] * 4,
        [Decimal("sNaN")] * 4, [10**400] * 4, [S] * 4, [np.nan] * 4, [mpmath.iv.mpf([0, 1])] * 4,
        [np.datetime64("2020-01-01")] * 4,
    ]  # fmt: skip


A, U = np.full(4, 0.5), np.ones(4)
STATE = rf.solve(A, U, window=rf.Jagged(2), return_state=True, states=False)
GIVEN = {
    "g": U, "ta": A, "tu": U, "a": A, "u": U, "x": U, "values": A, "kept": U, "coefficients": A,
    "counts": np.ones((4, 4), int), "n": 4,
    "format": "float16", "name": "float16", "formats": "e5m2", "other": pr.format("float16"), "window": rf.Jagged(2),
    "rho": 0.5, "format_or_eps": 0.1, "eps": 0.1, "tol": 0.1, "relative": 0.5, "kept_norm": 1.0, "block": 2, "lags": 2,
    "terms": 1, "ord": np.inf, "algorithm": "sequential", "bits": 8, "precision": 3, "codes": 1, "code": 1,
    "exponent": 5, "fraction": 10, "exponent_bits": 5, "fraction_bits": 10, "bias": 15, "nan_codes": 0,
    "parts": np.ones(1), "states": [STATE], "data": STATE.to_dict(), "a_t": 0.5, "u_t": 1.0, "index": 0,
    "key": (1, 0), "horizons": {"float16": pr.effective_horizon(A, "float16")},
    "table": pr.materialization_table({"constant": A}, block=2, format="float16"),
    "k": 2, "i": 1, "j": 0, "t": 1, "s": 0, "chunks": [(A, U)],
}  # fmt: skip
"""What the other arguments are; those with defaults keep them."""

HEADS = np.ones((4, 1, 2))
OWN = {"recfact.phalanx": {"a": A[:, None], "q": HEADS, "k": HEADS, "v": HEADS}, "recfact.ewm": {"alpha": 0.5}}
"""What they are of some functions."""

OPERATORS = {
    f"{name} of {kind}": make(coefficients)
    for kind, coefficients in (("floats", A), ("fractions", [Fraction(1, 2)] * 4), ("symbols", [S] * 4))
    for name, make in {
        "L": rf.TransferOperator,
        "inverse": lambda a: rf.TransferOperator(a).inv(),
        "transpose": lambda a: rf.TransferOperator(a).T,
        "Kogge-Stone": rf.KoggeStone,
        "Brent-Kung": rf.BrentKung,
        "blocks": lambda a: rf.Hierarchical(a, 2),
        "jagged": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(1)),
        "band": lambda a: rf.TransferOperator(a).truncate(rf.Uniform(2)),
        "error": lambda a: rf.TransferOperator(a).truncate(rf.Uniform(2)).error_operator(),
        "relative error": lambda a: rf.TransferOperator(a).truncate(rf.Jagged(1)).relative_error_operator(),
        "multiple": lambda a: rf.TransferOperator(a) / 2,
        "sum": lambda a: rf.TransferOperator(a) + rf.TransferOperator(a),
        "product": lambda a: rf.TransferOperator(a) @ rf.TransferOperator(a),
        "power": lambda a: rf.TransferOperator(a) ** 2,
    }.items()
}
OBJECTS = {
    **OPERATORS,
    "format": pr.format("float16"),
    "Jagged": rf.Jagged(2),
    "Uniform": rf.Uniform(2),
    "State": STATE,
    "horizons": pr.effective_horizon(A, 0.1),
    "choice": pr.choose_window(A, 0.1),
    "verification": pr.verify(A, U, window=rf.Jagged(2), format="float16"),
    "table": pr.horizon_table("float16"),
}
ARITHMETIC = [
    f"__{name}__" for name in ("matmul", "rmatmul", "mul", "rmul", "add", "radd", "sub", "truediv", "pow", "getitem")
]

# Steps of algorithms and of printing, on what is the object's own.
INNER = {("relative error", "collect"), ("relative error", "lengths"), ("table", "cells")}

# A sweep of many processes, and a table that fills minutes by itself; what they take is checked where it is made.
LONG = {"verify_many", "actual_horizon_table", "materialization_table"}


def is_result(call):
    """Say whether something is a class of results, which functions fill and no one calls."""
    return inspect.isclass(call) and call.__module__.startswith("recfact.precision") and call is not pr.FloatFormat


def targets():
    for module in (rf, pr, rf.gradients, rf.plot):
        for name in module.__all__:
            if callable(call := getattr(module, name)) and name not in LONG and not is_result(call):
                yield f"{module.__name__}.{name}", call
    for owner, thing in OBJECTS.items():
        kinds = [kind for kind in type(thing).__mro__ if kind.__module__.startswith("recfact")]
        for name in sorted({name for kind in kinds for name in vars(kind)}):
            if (name in ARITHMETIC or not name.startswith("_")) and (owner.split(" of ")[0], name) not in INNER:
                call = getattr(thing, name)
                if callable(call) and not isinstance(call, rf.TransferOperator.__mro__[2]):  # operators that it has
                    yield f"{owner}.{name}", call


TARGETS = dict(targets())
OWNERS = sorted({name.rpartition(".")[0] for name in TARGETS})


SHARE = 6
"""Of the values, the default run gives each argument one in so many, others to the next argument."""


@pytest.mark.parametrize("run", ["default", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.parametrize("owner", OWNERS)
def test_an_answer_or_an_error_of_ours(owner, run):
    for name, call in TARGETS.items():
        if name.rpartition(".")[0] == owner:
            with noted(name=name):
                check(name, call, run)


def check(name, call, run):
    share, first = (SHARE, crc32(name.encode())) if run == "default" else (1, 0)
    parameters = inspect.signature(call).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    given = GIVEN | OWN.get(name, {})
    required = {p.name: given[p.name] for p in named if p.default is p.empty} | OWN.get(name, {})
    for place, parameter in enumerate(named, first):
        for value in hostile()[place % share :: share]:
            arguments = {**required, parameter.name: value}
            with warnings.catch_warnings(), suppress(RecfactError):
                warnings.simplefilter("ignore")
                result = call(**arguments)
                if inspect.isgenerator(result):
                    list(islice(result, 3))


def test_the_walk_meets_what_there_is():
    assert {"recfact.solve", "recfact.precision.verify", "L of floats.__matmul__", "jagged of symbols.error"} <= set(
        TARGETS
    )
    assert len(TARGETS) > 300


def test_positions_out_of_range_are_those_of_sequences():
    with pytest.raises(IndexError, match="row 4 is out of range"):
        rf.TransferOperator(A)[4, 0]
