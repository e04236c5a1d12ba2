"""The speed table of the README comes from a recorded run."""

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from records import sample_record

from recfact.bench.record import Record
from recfact.report.tables import to_json

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture
def publish(tmp_path, monkeypatch):
    spec = spec_from_file_location("publish", ROOT / "benchmarks" / "publish.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "README", tmp_path / "README.md")
    monkeypatch.setattr(module, "HERE", tmp_path)
    return module


@pytest.mark.parametrize("typed", [[], ["missing.json"], ["a", "b"]])
def test_wrong_usage_says_what_is_right(typed):
    command = [sys.executable, ROOT / "benchmarks" / "publish.py", *typed]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=here)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: python benchmarks/publish.py")


def test_publishing_twice_is_publishing_once(publish, tmp_path):
    publish.README.write_text(f"before\n{publish.BEGIN}\nold\n{publish.END}\nafter\n")
    kept = tmp_path / "record.json"
    kept.write_text(to_json(sample_record().as_dict()))
    publish.main(kept)
    once = publish.README.read_text()
    publish.main(kept)
    assert publish.README.read_text() == once
    assert once.startswith(f"before\n{publish.BEGIN}\n\n| case |")
    assert once.endswith(f"\n\n{publish.END}\nafter\n")
    assert "old" not in once
    assert (tmp_path / "growth.svg").exists()


def test_a_smoke_run_and_a_page_without_marks_are_refused(publish):
    page = f"{publish.BEGIN}\n{publish.END}\n"
    with pytest.raises(ValueError, match="without --smoke"):
        publish.filled(page, sample_record(smoke=True))
    with pytest.raises(ValueError, match="once each"):
        publish.filled(page + page, sample_record())


@pytest.mark.skipif(not RECORDS, reason="no run has been recorded")
def test_the_readme_shows_the_newest_record(publish):
    newest = max((Record.from_dict(json.loads(path.read_text())) for path in RECORDS), key=lambda record: record.date)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert publish.filled(readme, newest) == readme
