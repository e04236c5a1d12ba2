"""The speed table of the README comes from a recorded run."""

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from records import sample_record
from samples import one_in

from recfact.bench.record import Record
from recfact.report.rows import to_json

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture
def publish(tmp_path, monkeypatch):
    spec = spec_from_file_location("publish", ROOT / "benchmarks" / "publish.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = {tmp_path / page.name: show for page, show in module.PAGES.items()}
    monkeypatch.setattr(module, "PAGES", pages)
    monkeypatch.setattr(module, "HERE", tmp_path)
    return module


@pytest.mark.parametrize("typed", one_in(3, [[], ["missing.json"], ["a", "b"]]))
def test_wrong_usage_says_what_is_right(typed):
    command = [sys.executable, ROOT / "benchmarks" / "publish.py", *typed]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=here)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: python benchmarks/publish.py")


def test_publishing_twice_is_publishing_once(publish, tmp_path):
    for page in publish.PAGES:
        page.write_text(f"before\n{publish.BEGIN}\nold\n{publish.END}\nafter\n")
    kept = tmp_path / "record.json"
    kept.write_text(to_json(sample_record().as_dict()))
    publish.main(kept)
    once = [page.read_text() for page in publish.PAGES]
    publish.main(kept)
    assert [page.read_text() for page in publish.PAGES] == once
    for text in once:
        assert text.startswith(f"before\n{publish.BEGIN}\n\n| case |")
        assert text.endswith(f"\n\n{publish.END}\nafter\n")
        assert "old" not in text
    assert ["peer: loop" in text for text in once] == [False, True, True]
    assert (tmp_path / "growth.svg").exists()


def test_a_smoke_run_and_a_page_without_marks_are_refused(publish):
    page = f"{publish.BEGIN}\n{publish.END}\n"
    with pytest.raises(ValueError, match="without --smoke"):
        publish.filled(page, sample_record(smoke=True), str)
    with pytest.raises(ValueError, match="once each"):
        publish.filled(page + page, sample_record(), str)


@pytest.mark.skipif(not RECORDS, reason="no run has been recorded")
def test_the_pages_show_the_newest_record(publish):
    newest = max((Record.from_dict(json.loads(path.read_text())) for path in RECORDS), key=lambda record: record.date)
    shown = {"README.md": publish.headlines, "docs/engine.md": publish.markdown, "docs/comparison.md": publish.peers}
    for name, show in shown.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        assert publish.filled(page, newest, show) == page
