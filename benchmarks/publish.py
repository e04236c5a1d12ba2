"""Put a record of the benchmarks into the README and two pages of the docs, and draw how time grows.

python benchmarks/publish.py benchmarks/results/RECORD.json
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from recfact.bench.display import growth_figure, headlines, markdown, peers
from recfact.bench.record import Record
from recfact.report.pictures import save

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGES = {HERE.parent / "README.md": headlines, DOCS / "engine.md": markdown, DOCS / "comparison.md": peers}
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def filled(page: str, record: Record, show: Callable[[Record], str]) -> str:
    """Return `page` with what `show` makes of `record` between its two marks."""
    if record.smoke:
        raise ValueError("a smoke run says nothing about speed; record a run without --smoke")
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page must hold {BEGIN} and {END} once each, to say where the table goes")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{show(record)}\n\n{END}{after}"


def main(path: Path) -> None:
    """Write the pages and the picture."""
    record = Record.from_dict(json.loads(path.read_text(encoding="utf-8")))
    for page, show in PAGES.items():
        page.write_text(filled(page.read_text(encoding="utf-8"), record, show), encoding="utf-8")
    save(growth_figure(record), HERE / "growth.svg")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python benchmarks/publish.py benchmarks/results/RECORD.json\n\nRECORD.json holds what "
                 "`recfact bench --json` printed.")  # fmt: skip
    main(Path(sys.argv[1]))
