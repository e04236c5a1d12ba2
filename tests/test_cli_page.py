"""The page on the command: what it shows is what the command prints."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import recfact
from recfact.cli.app import app

PAGE = (Path(recfact.__file__).parents[1] / "docs" / "command.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```console\n\$ recfact (.*)\n((?:.*\n)*?)```", PAGE)


@pytest.mark.parametrize(("typed", "expected"), SHOWN)
def test_what_the_page_shows_is_printed(tmp_path, monkeypatch, typed, expected):
    monkeypatch.chdir(tmp_path)
    Path("level.csv").write_text(re.search(r"```text\n(day(?:.*\n)*?)```", PAGE)[1])
    printed = CliRunner().invoke(app, shlex.split(typed)).output
    assert printed.replace("; column", ";\ncolumn") == expected, "the page breaks one long line"


def test_all_commands_of_the_page_are_looked_at():
    assert len(SHOWN) == PAGE.count("$ recfact") == 3
