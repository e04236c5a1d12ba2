"""Sweeps over many cases: what they count, that they repeat, that they find what is wrong, and that processes do it."""

import csv
import io
import json
import os
import subprocess
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from processes import run_in_child

import recfact
from recfact.algorithms import BLOCK
from recfact.errors import OptionError, OptionTypeError
from recfact.precision import exact
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.bounds import forward_bound
from recfact.precision.exact.balls import float_balls
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.run import rounded_solve
from recfact.precision.verification import sweep_batch
from recfact.precision.verification import verify as verification
from recfact.precision.verification.case_families import FAMILIES, draw
from recfact.precision.verification.computations import rounding_bound, task_of
from recfact.precision.verification.sweep import LENGTHS, verify_many
from recfact.windows import Full, Jagged, Uniform

FEW = {"cases": 500, "lengths": (8, 3), "processes": 1}


@pytest.fixture(scope="module")
def table():
    return verify_many(("float16", "fp8 e5m2"), ("sequential", "hierarchical"), **FEW)


def test_counts_every_combination_once(table):
    seen = [tuple(row[key] for key in ("format", "algorithm", "window", "fma", "family")) for row in table.rows]
    assert len(seen) == len(set(seen))
    assert list(dict.fromkeys(row["format"] for row in table.rows)) == ["binary16", "float8_e5m2"]
    assert list(dict.fromkeys(row["family"] for row in table.rows)) == list(FAMILIES)
    assert {row["window"] for row in table.rows if row["algorithm"] == "hierarchical"} >= {
        "Full()",
        "Jagged(4)",
    }
    assert len({row["cases"] for row in table.rows}) == 1
    assert table.cases == sum(row["cases"] for row in table.rows) >= FEW["cases"]


def test_no_bound_is_broken(table):
    assert table.failures == ()
    assert all(row["broken"] == 0 for row in table.rows)
    assert all(0 <= row[name] <= 1 for row in table.rows for name in ("truncation", "rounding", "total"))
    assert max(row["rounding"] for row in table.rows) > 0.3


def test_the_worst_case_is_what_the_table_says(table):
    for algorithm, case in table.worst.items():
        ratio = max(row["rounding"] for row in table.rows if row["algorithm"] == algorithm)
        v = case.verify()
        assert v.holds is True or v.nonfinite
        # The sweep adds the radius of its enclosure to an error, where it has no need of a closer look.
        a, u = case.inputs()
        how = case.variant
        bound = rounding_bound(task_of(algorithm, how.window, how.arithmetic), [(a, u, None)])
        radii = float_balls(a, u, case.variant.window).radii
        widest = max(2 * radii[bound > 0] / bound[bound > 0], default=0.0)
        assert v.rounding.ratio <= ratio * (1 + 2.0**-49)
        assert ratio <= (v.rounding.ratio + widest) * (1 + 2.0**-49)


def test_accumulated_errors_are_those_of_eight_roundings():
    fmt, n = FORMATS["bfloat16"], 20
    table = verify_many(Arithmetic(fmt), "sequential", Full(), "gates", cases=100, lengths=n, processes=1)
    case = table.worst["sequential"]
    a, u = draw("gates", fmt, n, case.channels, case.seed)
    unit, bound = Fraction(fmt.unit_roundoff), forward_bound(a, u, fmt, axis=0)
    error = np.abs(exact.solve(a, u, axis=0) - rounded_solve(a, u, fmt, axis=0))
    sizes = exact.solve(np.abs(a), np.abs(u), axis=0)
    found = [
        Fraction(e) / Fraction(b)
        for e, b, size in zip(error.flat, bound.flat, sizes.flat, strict=True)
        if Fraction(b) >= 8 * unit * Fraction(size) > 0
    ]
    assert 0 < len(found) < error.size
    (row,) = table.rows
    # The states are enclosed within n roundings to 53 bits of their size, and 8 to the format are that of the bound.
    assert max(found) <= row["accumulated"] <= max(found) + Fraction(n, 2**52) / (8 * unit)
    assert row["accumulated"] < row["rounding"]


def test_carriers_of_whole_blocks_are_multiplied():
    assert max(LENGTHS) > 2 * BLOCK


@pytest.mark.slow
def test_repeats_in_every_number_of_processes(table):
    shares = []
    again = verify_many(
        ("float16", "fp8 e5m2"), ("sequential", "hierarchical"), **{**FEW, "processes": 2}, progress=shares.append
    )
    assert again == table
    assert shares == [0.25, 0.5, 0.75, 1.0]
    other = verify_many(("float16", "fp8 e5m2"), ("sequential", "hierarchical"), **FEW, seed=1)
    assert other.rows != table.rows


def test_finds_a_bound_that_is_too_small(monkeypatch):
    real = sweep_batch.rounding_bound

    def too_small(*args, **options):
        return real(*args, **options) / 2

    monkeypatch.setattr(sweep_batch, "rounding_bound", too_small)
    table = verify_many("bfloat16", "sequential", Full(), **FEW)
    assert table.failures
    assert sum(row["broken"] for row in table.rows) == len(table.failures)
    assert "bounds broken" in repr(table)
    failure = next(failure for failure in table.failures if failure.error == "rounding")
    a, u = failure.case.inputs()
    assert a.shape == u.shape == (failure.case.n,)
    assert failure.case.verify().holds is True  # by the bound as it is
    monkeypatch.setattr(verification, "rounding_bound", too_small)
    assert failure.case.verify().rounding.holds is False


def test_finds_truncation_that_passes_its_bound(monkeypatch):
    real = sweep_batch.truncation_bounds
    monkeypatch.setattr(sweep_batch, "truncation_bounds", lambda *args: real(*args) * (1 - 2.0**-50))
    table = verify_many("float16", "sequential", (Full(), Uniform(2)), ("constant", "gates"), **FEW)
    assert {failure.error for failure in table.failures} >= {"truncation"}
    # Only constant coefficients and inputs reach the bound, and not all of them are exact in float64.
    assert {failure.case.family for failure in table.failures} == {"constant"}


def test_finds_an_algorithm_that_computes_something_else(monkeypatch):
    real = sweep_batch.compute

    def wrong(task, pieces):
        return real(task, [(a * (1 - 2.0**-8), u, x0) for a, u, x0 in pieces])

    monkeypatch.setattr(sweep_batch, "compute", wrong)
    for algorithm in ("sequential", "engine", "mixed-precision"):
        assert verify_many("float16", algorithm, Jagged(4), "gates", **FEW).failures


def test_the_engine_and_mixed_precision_are_among_the_algorithms():
    table = verify_many(("float16", "fp8 e5m2"), windows=(Full(), Uniform(4), Jagged(4)), **FEW)
    found = {name: [row for row in table.rows if row["algorithm"] == name] for name in ("engine", "mixed-precision")}
    assert {(row["format"], row["window"], row["fma"]) for row in found["engine"]} == {
        ("binary16", repr(window), True) for window in (Full(), Uniform(4), Jagged(4))
    }
    assert {(row["format"], row["window"], row["accumulate"]) for row in found["mixed-precision"]} == {
        (name, repr(window), "binary32") for name in ("binary16", "float8_e5m2") for window in (Full(), Jagged(4))
    }
    assert table.failures == ()


def test_the_engine_over_several_of_its_tiles():
    windows = (Full(), Jagged(40))
    table = verify_many(("float16", "bfloat16"), "engine", windows, cases=300, lengths=150, processes=1)
    assert table.failures == ()


@pytest.mark.parametrize("fmt", ["float32", "float64"])
def test_formats_with_codes_of_32_and_64_bits(fmt):
    table = verify_many(fmt, ("sequential", "engine"), Full(), **{**FEW, "cases": 300})
    assert table.failures == ()
    assert any(row["family"] == "codes" and row["nonfinite"] for row in table.rows)


def test_overflow_is_counted_and_is_no_failure():
    table = verify_many(("float16", "float4_e2m1fn"), "sequential", Full(), "codes", **FEW)
    assert {row["format"] for row in table.rows if row["nonfinite"]} == {"binary16", "float4_e2m1fn"}
    assert not table.failures


def test_formats_without_zero_or_sign():
    assert FORMATS["float8_e8m0fnu"].bits == 8
    assert not verify_many("float8_e8m0fnu", None, **FEW).failures


def test_prints_and_converts(table):
    text = repr(table)
    assert text.startswith(f"{table.cases} cases, seed 0: no bound broken")
    assert "Jagged(4)" in text
    assert table._repr_html_().count("<tr>") == len(text.splitlines()) - 1
    assert table.to_markdown().count("\n") == len(text.splitlines()) - 1
    record = json.loads(table.to_json())
    assert record["seed"] == 0
    assert len(record["rows"]) == len(table.to_rows()) == len(list(csv.DictReader(io.StringIO(table.to_csv()))))
    by = table.by("format", "family")
    assert sum(row["cases"] for row in by.rows) == table.cases
    assert len(by) == 2 * len(FAMILIES)
    for merged in table.by("algorithm").rows:
        own = [row for row in table.rows if row["algorithm"] == merged["algorithm"]]
        assert merged["rounding"] == max(row["rounding"] for row in own) > own[-1]["rounding"]
        assert merged["nonfinite"] == sum(row["nonfinite"] for row in own)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithms": "quicksort"}, "algorithms must be one of"),
        ({"families": ("gates", "rain")}, "families must be one of"),
        ({"algorithms": "brent-kung", "windows": Uniform(3)}, "none of the algorithms brent-kung makes"),
        ({"families": ()}, "families must name one at least"),
        ({"formats": ()}, "formats must name one at least"),
        ({"cases": 0}, "cases must be at least 1"),
        ({"lengths": 0}, "lengths must be at least 1"),
        ({"processes": 0}, "processes must be at least 1"),
        ({"windows": ()}, "windows must name one at least"),
        ({"algorithms": "engine", "formats": "fp8 e5m2"}, "none of the algorithms engine makes"),
        (
            {"algorithms": "engine", "formats": Arithmetic("float16", rounding="up")},
            "none of the algorithms engine makes",
        ),
        ({"formats": "binary128"}, "float64, which doesn't hold binary128's numbers"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_what_it_refuses(options, message):
    with pytest.raises(OptionError, match=message):
        verify_many(**{"formats": "float16", "processes": 1, **options})


def test_types_that_it_refuses():
    for options in ({"seed": "one"}, {"progress": "bar"}, {"lengths": 2.5}):
        with pytest.raises(OptionTypeError, match=f"{next(iter(options))} must be"):
            verify_many("float16", processes=1, **options)


def test_a_window_must_be_one():
    with pytest.raises(TypeError, match="window must be"):
        verify_many("float16", windows=16, processes=1)


CALL = """
from recfact.precision.verification.sweep import verify_many
print(verify_many("float16", "sequential", cases=100, lengths=(2, 3), processes=2).cases >= 100)
"""


@pytest.mark.slow
def test_processes_from_a_command_line():
    assert run_in_child(CALL) == "True\n"


def test_processes_from_a_prompt():
    prompt = [sys.executable, "-i", "-q"]
    done = subprocess.run(prompt, input=CALL, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "True\n"


@pytest.mark.slow
def test_a_script_without_a_guard_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CALL)
    # A script finds what is next to it, which recfact isn't.
    here = {**os.environ, "PYTHONPATH": str(Path(recfact.__file__).parent.parent)}
    run = partial(subprocess.run, [sys.executable, script], capture_output=True, text=True, env=here, timeout=120)
    done = run(check=False)
    assert done.returncode == 1
    assert 'a script must call verify_many under if __name__ == "__main__":' in done.stderr
    assert "WorkerError: a process of the sweep ran the script that had started it" in done.stderr
    assert "freeze_support" not in done.stderr
    script.write_text(CALL.replace("print", 'if __name__ == "__main__":\n    print'))
    assert run(check=True).stdout == "True\n"


def test_windows_of_many_terms():
    assert not verify_many("bfloat16", "hierarchical", Jagged(2, 3), **FEW).failures


def test_large_batches_are_split(monkeypatch):
    monkeypatch.setattr("recfact.precision.verification.sweep.LARGEST", 100)
    shares = []
    table = verify_many("float8_e5m2", "sequential", Full(), cases=1000, lengths=4, processes=1, progress=shares.append)
    assert len(shares) > 5
    assert table.cases >= 1000
    assert np.all([row["cases"] == table.rows[0]["cases"] for row in table.rows])
