"""The sweeps of docs/verify.md: no bound broken; and in a million cases the quotients that the page shows."""

from pathlib import Path

import pytest

from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.verification.sweep import verify_many

SEED = 2026
PAGE = Path(__file__).parents[3] / "docs" / "verify.md"


@pytest.mark.slow
def test_no_bound_is_broken_in_any_combination():
    table = verify_many(cases=200, seed=SEED + 1)
    assert table.failures == ()
    assert f"{table.cases:,} cases" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_bound_is_broken_and_the_page_says_what_was_found():
    table = verify_many(cases=1_000_000, seed=SEED)
    assert table.cases >= 1_000_000
    assert {row["format"] for row in table.rows} == {fmt.name for fmt in FORMATS.values() if fmt.bits <= 16}
    assert table.failures == ()
    page = PAGE.read_text(encoding="utf-8")
    assert f"pr.verify_many(cases=1_000_000, seed={SEED})" in page
    assert f"{table.cases:_} cases" in page.replace(",", "_")
    for part in (table.by("algorithm"), table.by("family"), table.by("format")):
        assert part.to_markdown() in page
