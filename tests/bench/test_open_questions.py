"""The answers on the page of open questions agree with slow, independent computations, at small size."""

import json
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import recfact as rf
from benchmarks.open_questions import blocks, constructions, figures, horizons, jagged, page, records
from recfact import precision as pr
from recfact.windows import Jagged, Uniform


def plain_walk(fmt, rho, u, x, steps):
    """Return all states of the rounded recurrence, one step after the other."""
    states = [Fraction(x)]
    for _ in range(steps):
        rounded = Fraction(fmt.round(Fraction(rho) * states[-1], overflow="saturate"))
        states.append(Fraction(fmt.round(rounded + u, overflow="saturate")))
    return states


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float6_e2m3fn", "binary32"]
)
@pytest.mark.parametrize("rate", [None, "0.9", "0.75", "0.3"])
def test_equal_steps_taken_at_once_are_steps(name, rate):
    fmt = pr.format(name)
    rho = fmt.largest_below_one if rate is None else float(fmt.round(Fraction(rate)))
    for u, x in ((0, 1), (0, 3), (1, 0), (1, 3)):
        plain = plain_walk(fmt, rho, u, x, 120)
        for steps in (0, 1, 2, 7, 60, 119):
            step, state = horizons.walk(fmt, rho, u, x, steps)
            assert state == plain[steps] == plain[step]
            assert step == steps or plain[step] == plain[step + 1]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_sum_of_the_largest_coefficient_stops_at_half_of_its_limit(name):
    fmt = pr.format(name)
    found, units = horizons.row(fmt), 1 << fmt.fraction_bits
    assert found["share"] == 0.5
    exact = sum(units / (2**j - 1) for j in range(1, fmt.fraction_bits + 1))
    assert abs(found["settles"] - exact) <= fmt.fraction_bits
    assert found["apart"][1] == 3 * units // 2 + 1
    assert found["error_over_bound"] <= 1


def test_states_apart_are_those_of_a_loop():
    fmt = pr.format("float8_e4m3fn")
    for rho, u in product((0.9375, 0.875, 0.5), (0, 1)):
        states = fmt.values()
        reached = states = states[states >= 0]
        counts = []
        for _ in range(200):
            reached = fmt.round(fmt.round(rho * reached) + u, overflow="saturate")
            counts.append(len(np.unique(reached)))
        assert horizons.apart(fmt, rho, u) == (len(states), counts[-1])
        assert [horizons.apart(fmt, rho, u, steps)[1] for steps in (1, 2, 3, 6)] == [
            counts[k - 1] for k in (1, 2, 3, 6)
        ]


def test_the_compiled_loop_is_the_predicted_one():
    for run in horizons.runs(steps=5000, chunk=512):
        assert run["loop"] == run["predicted"]
        assert abs(run["engine"] - run["exact"]) <= 1e-3 * run["exact"]


@pytest.mark.parametrize("name", jagged.FAMILIES)
def test_losses_are_those_of_the_dense_matrix(name):
    block, n = 4, 48
    a = jagged.FAMILIES[name].draw(np.random.default_rng(0), n)
    indices = np.arange(n)
    dense = np.array([[np.prod(a[j + 1 : i + 1]) if j <= i else 0 for j in indices] for i in indices])
    lags, phase = indices[:, None] - indices, indices % block
    seen = {Jagged(block): lags <= phase[:, None] + block}
    seen |= {Uniform(count): lags < count for count in (block + 1, 2 * block)}
    found = {}
    for window, kept in seen.items():
        found[window] = worst, square = jagged.losses(a, window)
        lost = np.where(kept, 0, dense)
        np.testing.assert_allclose(worst, abs(lost).sum(axis=1), rtol=1e-12, atol=0)
        np.testing.assert_allclose(square, (abs(lost) ** 2).sum(axis=1), rtol=1e-12, atol=0)
    between = found[Uniform(2 * block)][0], found[Jagged(block)][0], found[Uniform(block + 1)][0]
    assert np.all(np.diff(between, axis=0) >= -1e-12 * between[2])
    if np.isrealobj(a):
        assert pr.truncation_norm(a, Jagged(block)) == pytest.approx(between[1].max(), rel=1e-12)


def test_the_equivalent_window_of_a_constant_is_the_predicted_one():
    for name in ("constant 0.9", "0.9 with random signs"):
        found = jagged.row(name, 16, 1 << 12)
        assert found["rms_equivalent"] == pytest.approx(found["predicted"], abs=2e-3)
        assert found["worst_equivalent"] == pytest.approx(17, abs=1e-6)
    for q, block in product((0.01, 0.5, 0.99, 0.99999), (1, 7, 64)):
        assert block + 1 - 1e-9 <= jagged.predicted(q, block) <= (3 * block + 1) / 2 + 1e-6


def test_if_blocks_start_anywhere_the_worst_loss_is_that_of_one_lag_more():
    a, block = np.random.default_rng(0).uniform(0.5, 1, 400), 5
    shifted = [jagged.losses(a[start:], Jagged(block))[0][200:].max() for start in range(block)]
    uniform = [jagged.losses(a[start:], Uniform(block + 1))[0][200:].max() for start in range(block)]
    assert max(shifted) == pytest.approx(max(uniform), rel=1e-9)


def noisy(rng, x):
    """Return numbers with one small relative error each."""
    return x * (1 + 1e-6 * rng.standard_normal(np.shape(x)))


@pytest.mark.parametrize("method", constructions.METHODS)
def test_variances_are_those_of_small_random_errors(method):
    rng, block, decay, runs = np.random.default_rng(0), 6, 0.7, 20_000
    a = np.full((runs, block), np.exp(-decay))
    logs = noisy(rng, np.log(a))
    prefix, sums = [a[:, 0]], [logs[:, 0]]
    for k in range(1, block):
        prefix.append(noisy(rng, prefix[-1] * a[:, k]))
        sums.append(noisy(rng, sums[-1] + logs[:, k]))
    found = []
    for i, j in zip(*np.tril_indices(block, -1), strict=True):
        match method:
            case "cumprod":
                entry = a[:, j + 1]
                for k in range(j + 2, i + 1):
                    entry = noisy(rng, entry * a[:, k])
            case "segsum":
                entry = logs[:, j + 1]
                for k in range(j + 2, i + 1):
                    entry = noisy(rng, entry + logs[:, k])
                entry = noisy(rng, np.exp(entry))
            case "ratio":
                entry = noisy(rng, prefix[i] / prefix[j])
            case _:
                entry = noisy(rng, np.exp(noisy(rng, sums[i] - sums[j])))
        found.append(np.var(entry / np.exp(-decay * (i - j))) / 1e-12)
    np.testing.assert_allclose(found, constructions.variances(method, block, decay), rtol=0.06, atol=1e-9)


def test_a_crossing_is_found_between_decays():
    assert constructions.crossing([1.0, 2.0, 4.0], [0.5, 0.5, 2.0]) == pytest.approx(8**0.5)
    assert constructions.crossing([1.0, 2.0], [0.5, None]) is None
    expected = constructions.predicted("segsum", "binary32", 512, 10**0.5 / 512)
    assert expected == pytest.approx(1, abs=0.01)


def test_rounding_is_the_casts_that_terms_pass_through():
    q, block = 0.6, 24
    window, n = Jagged(block), 4 * block
    casts = pr.cast_counts(n, window=window)[-block:]
    lags = np.arange(n)[-block:, None] - np.arange(n)
    weights = np.where(casts >= 0, q ** np.maximum(lags, 0), 0.0)
    share = np.mean((weights * casts).sum(axis=1)) * (1 - q)
    unit = 2.0**-8 / np.sqrt(8 * np.log(2))
    assert blocks.rounding(q, block, "bfloat16", "tensor cores") == pytest.approx(unit * share**0.5, rel=1e-4)
    errors = rf.TransferOperator(np.full(40 * block, q)).truncate(window).error(np.ones(40 * block))[-block:]
    assert blocks.truncation(q, block) ** 2 == pytest.approx(errors.mean() * (1 - q), rel=1e-9)


def test_the_crossing_in_time_constants_is_the_limit():
    for kernel in blocks.KERNELS:
        q = np.exp(-2e-4)
        assert blocks.crossing(q, "bfloat16", kernel) * 1e-4 == pytest.approx(
            blocks.time_constants("bfloat16", kernel), rel=1e-3
        )


def test_below_the_proved_block_truncation_is_larger_than_the_bound_of_rounding():
    rho = float(pr.format("bfloat16").round(0.75))
    block = int(blocks.proved(rho, "bfloat16"))
    a, u = np.full(8 * block, rho), np.ones(8 * block)
    bound = pr.forward_bound(a, u, "bfloat16", "mixed-precision", window=Jagged(block))
    assert max(bound) < max(rf.TransferOperator(a).truncate(Jagged(block)).error(u))


def test_records_agree_with_what_is_predicted():
    answers = {name: records.read(name)["answer"] for name in figures.FIGURES}
    for run in answers["horizons"]["runs"]:
        assert run["loop"] == pytest.approx(run["predicted"], rel=1e-8)
    for row in answers["jagged"]["rows"]:
        if row["family"].startswith(("constant", "0.9 with")):
            assert row["rms_equivalent"] == pytest.approx(row["predicted"], rel=1e-3)
    for row in answers["blocks"]["rows"]:
        assert row["measured"] == pytest.approx(row["predicted"], rel=0.08)
    for row in answers["blocks"]["worst"]:
        assert row["first"] > row["proved"]


@pytest.mark.slow
def test_each_command_writes_a_record_and_the_page_is_filled_from_them(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    small = {
        "horizons": lambda: horizons.answer(["bfloat16", "float8_e5m2"], 100, 64),
        "jagged": lambda: jagged.answer(["constant 0.9", "uniform in [0, 1]"], steps=512),
        "constructions": lambda: constructions.answer(["bfloat16"], (8, 16), decays=[0.01, 0.1, 1.0], count=2),
        "blocks": lambda: blocks.answer([0.5], (4, 8), ["bfloat16"]),
    }
    monkeypatch.setattr(horizons, "GIVEN", (("0.9",), ("bfloat16",)))
    for name, answer in small.items():
        records.record(name, answer)
        assert json.loads((tmp_path / f"{name}.json").read_text())["command"].endswith(name)
    target = tmp_path / "page.md"
    target.write_text(page.PAGE.read_text())
    page.main(target, tmp_path)
    first = target.read_text()
    page.main(target, tmp_path)
    assert target.read_text() == first != page.PAGE.read_text()
    assert all((tmp_path / f"open_{name}.svg").stat().st_size > 5000 for name in figures.FIGURES)


def test_the_page_shows_the_records():
    text = page.PAGE.read_text()
    filled = text
    for name in figures.FIGURES:
        filled = page.section(filled, name)
    assert filled == text


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="<!-- blocks:begin -->"):
        page.filled("no marks", "blocks", "table")
