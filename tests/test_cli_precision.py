"""The commands on number formats: what they print, draw and refuse."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recfact import precision as pr
from recfact.cli.app import app


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result


def test_horizon_prints_the_table_of_the_paper():
    rows = json.loads(run("horizon", "fp32", "fp16", "bf16", "fp8 e5m2", "fp8 e4m3fn", "--json").stdout)
    assert [(row["normal"], row["subnormal"]) for row in rows] == [
        (1465264032, 1732732863),
        (19869, 34061),
        (22314, 23554),
        (72, 83),
        (64, 96),
    ]


def test_horizon_takes_rho_exactly():
    printed = run("horizon", "bf16", "--rho", "0.99", "--rho", "1/2", "--style", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [int(row["normal"]) for row in rows] == [pr.horizon("0.99", "bf16"), 126]


@pytest.mark.parametrize(
    ("style", "start"), [("text", "format"), ("markdown", "| format"), ("latex", r"\begin"), ("html", "<table")]
)
def test_horizon_prints_in_every_style(style, start):
    assert run("horizon", "half", "--style", style).stdout.lstrip().startswith(start)
    assert run("horizon", "half", "--actual", "--style", style).stdout.lstrip().startswith(start)


def test_horizon_draws():
    run("horizon", "fp32", "bf16", "--plot", "h.svg")
    picture = Path("h.svg").read_text(encoding="utf-8")
    assert "bfloat16" in picture
    assert "all weights further back together" in picture


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["fp8 e4m3"], "float8_e4m3fn"),
        (["nosuch"], "nosuch"),
        (["half", "--rho", "-1"], "rho"),
        (["half", "--rho", "nan"], "rho"),
        (["half", "--json", "--style", "csv"], "exclude"),
        (["half", "--plot", "h.pdf"], ".svg"),
        (["half", "--style", "rst"], "rst"),
    ],
)
def test_horizon_says_what_is_wrong(arguments, says):
    assert says in run("horizon", *arguments, code=2).output
    assert not list(Path().iterdir())
