"""Put the recorded answers into the page of the docs: its tables, its pictures, and where the numbers come from.

python -m benchmarks.open_questions.page
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.open_questions import figures
from benchmarks.open_questions.records import read
from recfact.report.pictures import save

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "open_questions.md"
Answer = dict[str, Any]


def markdown(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table whose numbers stand on the right."""
    first, *others = names
    lines = [[first, *others], ["---", *("--:" for _ in others)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def steps(count: float | None) -> str:
    """Return a number of steps, short where it is long."""
    if count is None:
        return "never"
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}") if count < 10**10 else f"{count:.4g}".replace("e+", "e")


def weight(row: Answer) -> str:
    """Return the last lag at which a weight rounded to nearest isn't zero, or from which on it stays the same."""
    return steps(row["nearest"]) if row["stays_from"] is None else f"stays from {steps(row['stays_from'])}"


def digits(value: float | None, count: int = 3, none: str = "-") -> str:
    """Return a number with so many digits."""
    return none if value is None else f"{value:.{count}g}"


def horizons(answer: Answer) -> str:
    """Return the tables of the largest coefficients, of given ones, and of the runs."""
    largest = [
        [
            each["format"],
            steps(each["predicted"]),
            weight(each),
            steps(each["truncated"]),
            "overflows" if each["share"] is None else steps(each["settles"]),
            digits(each["share"]),
            "-" if each["apart"] is None else "{1} of {0}".format(*each["apart"]),
        ]
        for each in answer["largest"]
        if not each["format"].startswith("p3109")
    ]
    given = [
        [
            f"{each['format']}, {float_of(each['rho']):.6g}",
            steps(each["predicted"]),
            weight(each),
            steps(each["truncated"]),
            steps(each["settling"]),
            steps(each["settles"]),
            f"{each['share']:.7g}",
            digits(each["error_over_bound"], 2),
        ]
        for each in answer["given"]
    ]
    runs = [
        [
            "a constant input of 1" if each["input"] else "a single input of 1",
            *(f"{each[name]:.8g}" for name in ("exact", "predicted", "loop", "engine")),
        ]
        for each in answer["runs"]
    ]
    weights = ["predicted horizon", "last weight, to nearest", "last weight, truncated"]
    stops = ["sum stops at step", "at a share of its limit"]
    first = f"binary32 after {steps(answer['runs'][0]['steps'])} steps"
    return "\n\n".join(
        [
            markdown(["largest coefficient below 1", *weights, *stops, "states apart after 10^9 steps"], largest),
            markdown(["format, coefficient", *weights, "sum, predicted", *stops, "error / bound"], given),
            markdown([first, "exact", "predicted for the loop", "the loop", "`rf.solve`"], runs),
        ]
    )


def float_of(text: str) -> float:
    """Return a quotient of two integers."""
    above, _, below = text.partition("/")
    return int(above) / int(below or 1)


def jagged(answer: Answer) -> str:
    """Return the table of equivalent windows."""
    rows = [
        [
            f"{each['family']}, `Jagged({each['block']})`",
            *(
                "loses nothing" if each[name] is None else f"{each[name]:.1f}"
                for name in ("worst_equivalent", "rms_equivalent")
            ),
            digits(each["predicted"]),
            *(digits(each[name]) for name in ("worst_ratio", "rms_ratio")),
        ]
        for each in answer["rows"]
    ]
    names = ["coefficients", "as bad as `Uniform`, worst", "rms", "predicted", "loss at equal lags, worst", "rms"]
    return markdown(names, rows)


def constructions(answer: Answer) -> str:
    """Return the table of crossings, and of what is recommended where."""
    ends = [
        [
            f"{each['format']}, blocks of {each['block']}",
            *(digits(each[name] and each[name] * each["block"]) for name in ("measured", "predicted")),
        ]
        for each in answer["crossings"]
    ]
    found = answer["recommended"]
    families = list(dict.fromkeys(name for cases in found.values() for case in cases.values() for name in case))
    best = [[family, *(best_of(cases, family) for cases in found.values())] for family in families]
    return "\n\n".join(
        [
            markdown(["crossing at block times mean log", "measured", "predicted"], ends),
            markdown(["coefficients", *found], best),
        ]
    )


def best_of(cases: dict[str, dict[str, str]], family: str) -> str:
    """Return the construction for one family, or one for each block length."""
    methods = [case[family] for case in cases.values()]
    if len(set(methods)) == 1:
        return methods[0]
    return ", ".join(f"{method} ({block})" for block, method in zip(cases, methods, strict=True))


def blocks(answer: Answer) -> str:
    """Return the table of crossings, and that of the worst case."""
    kernels = [[each for each in answer["rows"] if each["kernel"] == name] for name in ("tensor cores", "rf.solve")]
    rows = [
        [
            f"{pair[0]['format']}, {'drawn, ' if pair[0]['drawn'] else ''}{pair[0]['q'] ** 0.5:.4f}",
            *(f"{each[name]:.1f}" for each in pair for name in ("predicted", "measured")),
        ]
        for pair in zip(*kernels, strict=True)
    ]
    worst = [[f"{each['rho']:.6g}", f"{each['proved']:.1f}", each["first"]] for each in answer["worst"]]
    names = ["format, root of q", "tensor cores, predicted", "measured", "`rf.solve`, predicted", "measured"]
    sure = ["bfloat16, inputs of 1", "truncation proved larger up to block", "rounding larger from block"]
    return f"{markdown(names, rows)}\n\n{markdown(sure, worst)}"


SHOW: dict[str, Callable[[Answer], str]] = {
    "horizons": horizons,
    "jagged": jagged,
    "constructions": constructions,
    "blocks": blocks,
}


def origin(record: dict[str, Any]) -> str:
    """Return the command and the machine."""
    machine = record["machine"]
    versions = ", ".join(f"{name} {machine['packages'][name]}" for name in ("numpy", "scipy", "llvmlite"))
    return (
        f"From `{record['command']}`, run on {machine['cores']} cores of an {machine['processor']} with "
        f"{machine['memory']:.0f} GiB ({machine['system']}, Python {machine['python']}, {versions})."
    )


def filled(page: str, name: str, text: str) -> str:
    """Return the page with a text between the marks of a name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page must hold {begin} and {end}, to say where the tables go")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def section(page: str, name: str) -> str:
    """Return the page with the tables of one record."""
    record = read(name)
    return filled(page, name, f"{SHOW[name](record['answer'])}\n\n{origin(record)}")


def main(page: Path = PAGE, pictures: Path = DOCS / "_static") -> None:
    """Write the page and the pictures."""
    text = page.read_text(encoding="utf-8")
    for name, draw in figures.FIGURES.items():
        text = section(text, name)
        save(draw(read(name)["answer"]), pictures / f"open_{name}.svg")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
