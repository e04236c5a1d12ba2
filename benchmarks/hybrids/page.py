"""The part of docs/hybrids.md that shows what has been run: a section only where there is a row of it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.hybrids import display, figures
from benchmarks.hybrids.display import Records
from recfact.report.pictures import save

BEGIN, END = "<!-- rows:begin -->", "<!-- rows:end -->"

LOSSES = (
    "Losses are in bits a byte, on bytes that are held out: the mean over seeds, and in brackets the least and the "
    "greatest. Models of one seed see the same data in the same order, so the last column compares them seed by seed. "
    "If its range contains 0, these runs don't tell which of the two is better. Three differences of one sign are weak "
    "evidence, too: chance gives as much once in four comparisons."
)
RATES = (
    "Losses after a quarter of the training, seed 0, for each learning rate. The best rate of P also serves the "
    "variants of P. The rates that were found on this text serve the other one, too."
)
CUTS = (
    "What the loss becomes if a trained model is run with another window, without more training. Positive numbers are "
    "bits a byte more than with its own window. A lone 0.0000 says that all seeds changed by less than 0.00005."
)
OTHERS = (
    "The same for other changes. *In bfloat16*: coefficients and inputs are rounded to bfloat16, and states once, "
    "after sums in float32. *Blocks 8 steps late*: the blocks of jagged windows start at another place. *Proved "
    "windows*: what `choose_window` finds for the unit roundoff of bfloat16 and the coefficients of all heads on "
    "eight sequences, seed by seed."
)
COEFFICIENTS = (
    "The coefficients on eight sequences that are held out: the mean over heads and seeds, and the range. *Weight "
    "from lag 32 on*: the share of a row's entries in the transfer operator. *Cut off by Jagged(16)*: what truncation"
    " removes from the states, as a fraction of their root mean square. *Proved windows*: the shortest and the "
    "longest that `choose_window` finds for single heads, for the unit roundoff of bfloat16. *Truncation* and "
    "*rounding*: the largest absolute errors that `verify` measures with the model's own window, in one sequence and "
    "the first feature of each head, if every operation rounds to bfloat16; and whether they keep to their proved "
    "bounds."
)
TASKS = {
    "recall": (
        "Recall",
        "Eight pairs of a key and a value, then keys that ask for their values. Two blocks of 64 features.",
    ),
    "parity": (
        "Parity",
        "Is the number of ones so far odd? One Phalanx block of 16 features, trained on 64 steps and judged on 256.",
    ),
    "copying": (
        "Copying over a gap",
        "A marked token, noise, and a question for the token. One Phalanx block of 64 features.",
    ),
}
CURVES = "Losses in training, and their differences to P, cut at 0.2. Dashed: one seed"
PICTURES = {
    "bible-losses": "Losses on held-out books, a dot a seed",
    "bible-curves": CURVES,
    "python-losses": "Losses on held-out modules, a dot a seed",
    "python-curves": CURVES,
    "recall": (
        "Losses while recall is learned, a line a seed. A guess costs 6 bits among all values, and 3 bits among those "
        "of the sequence"
    ),
    "parity": "Share of right answers by the step of the sequence, a line a seed",
    "copying": "Share of right answers by the gap, a line a seed",
}


def shown(found: Records) -> str:
    """Return the sections of what has been run, in Markdown."""
    drawn = figures.available(found)

    def picture(name: str) -> str:
        return f"![{PICTURES[name]}](_static/hybrids-{name}.svg)" if name in drawn else ""

    parts = [display.machines(found) or "Nothing has been run yet."]
    for text, title in display.CORPORA.items():
        parts += section(f"## {title}", LOSSES, display.losses(found, text))
        parts += [picture(f"{text}-losses"), picture(f"{text}-curves")]
        parts += section("### Cut after training", CUTS, display.cuts(found, text))
        parts += section("### Number type, place of blocks, and proved windows", OTHERS, display.others(found, text))
        parts += section("### Coefficients", COEFFICIENTS, display.coefficients(found, text))
    for kind, (title, told) in TASKS.items():
        parts += section(f"## {title}", told, display.answers(found, kind))
        parts += [picture(kind)]
    parts += section("## Learning rates", RATES, display.rates(found))
    return "\n\n".join(part for part in parts if part)


def section(title: str, told: str, table: str) -> list[str]:
    """Return a section, or nothing without a table."""
    return [title, told, table] if table else []


def filled(page: str, found: Records) -> str:
    """Return the page with what has been run between its two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{shown(found)}\n\n{END}{rest.partition(END)[2]}"


def publish(results: Path, docs: Path) -> None:
    """Write the page and its pictures."""
    found = display.records(results)
    page = docs / "hybrids.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), found), encoding="utf-8")
    for name, draw in figures.available(found).items():
        save(draw(), docs / "_static" / f"hybrids-{name}.svg")
