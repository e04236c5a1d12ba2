"""The tutorial that trains a model: the script runs, and prints what its page shows, up to digits."""

import re
import runpy
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),  # by torch's own use
]


@pytest.fixture
def settings():
    """Restore what the script sets for itself."""
    threads, generator = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(generator)
    torch.set_grad_enabled(True)


def words(text):
    """Return the words of a text, with a mark for each number."""
    return re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", "#", text).split()


def test_the_script_prints_what_its_page_shows(settings, capsys):
    found = runpy.run_path(str(TUTORIALS / "trained_window.py"))
    page = (TUTORIALS / "trained_window.md").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    assert words(printed) == words("\n".join(re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)))
    loss = [float(bits) for bits in re.findall(r"([\d.]+) bits a byte", printed)]
    assert loss[0] < 4  # of 8 bits
    assert loss[-1] == pytest.approx(loss[0], abs=0.01)  # the proved window
    assert loss[1] > loss[0] + 0.1  # Jagged(2, 0)
    assert found["choice"].error <= 2**-8
    assert found["a"].shape == (2, len(found["unseen"]), 256, 4)
    assert found["apart"] < 1e-4
    assert found["numbers"] == 2 * 2 * 64


def test_the_page_shows_all_of_the_script():
    page = (TUTORIALS / "trained_window.md").read_text(encoding="utf-8")
    parts = re.findall(r"^# -- (\w+)$", (TUTORIALS / "trained_window.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r':start-after: "# -- (\w+)"', page) == parts
    assert re.findall(r':end-before: "# -- (\w+)"', page) == parts[1:]
