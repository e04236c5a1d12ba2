"""Verification of very many cases: formats, algorithms, windows and families of inputs, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import product
from multiprocessing import current_process, get_context
from typing import Any

import numpy as np

from recfact.checks import LONGEST, boolean, callback, choice, positive_integer, several
from recfact.errors import OptionError, RecfactError
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.catalogue import format as format_of
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.formats.rounding import ROUNDINGS, UNDERFLOWS
from recfact.precision.verification.case_families import FAMILIES
from recfact.precision.verification.computations import COMPUTATIONS, compute
from recfact.precision.verification.sweep_batch import Batch, Tally, run_batch
from recfact.precision.verification.sweep_case import Variant
from recfact.precision.verification.sweep_table import SweepTable
from recfact.precision.verification.verify import DEFAULTS
from recfact.windows import Full, Jagged, Uniform, Window, check_window

LENGTHS = (1, 2, 7, 16, 24, 45)  # 45: three blocks of the algorithms that choose their own
WINDOWS = (Full(), Uniform(4), Jagged(4), Jagged(3, 2))
LARGEST = 1 << 14
"""Most sequences in a batch."""


class WorkerError(RecfactError, RuntimeError):
    """A process of a sweep that ended by itself."""


def verify_many(
    formats: Any = None,
    algorithms: Any = None,
    windows: Window | Sequence[Window] = WINDOWS,
    families: Any = None,
    *,
    cases: int = 10_000,
    lengths: int | Sequence[int] = LENGTHS,
    accumulate: Any = None,
    fma: bool | Sequence[bool] = (False, True),
    rounding: str = "nearest-even",
    underflow: str = "gradual",
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[float], object] | None = None,
) -> SweepTable:
    """Verify the error bounds of many random and adversarial cases, and find where they come closest to breaking.

    Parameters
    ----------
    formats : str, dtype, FloatFormat, or sequence of these, optional
        Number formats; all of the catalogue up to 16 bits by default.
    algorithms : str or sequence of str, optional
        What computes the states, as in `verify`; all by default. Windows, formats and arithmetic that one doesn't make
        are left out.
    windows : Window or sequence of them
        Windows.
    families : str or sequence of str, optional
        Names of `FAMILIES`, all by default.
    cases : int, default 10_000
        How many cases to verify at least: sequences times ways to compute their states. They are shared out evenly.
    lengths : int or sequence of int
        Numbers of steps.
    accumulate : format, None, or sequence of these
        Formats of the operations; None is that of the states, and binary32 for "mixed-precision".
    fma : bool or sequence of bool
        Whether products and sums are fused.
    rounding, underflow : str
        As in `rounded_solve`.
    seed : int, default 0
        At least 0. The same seed gives the same table, for every number of processes.
    processes : int, optional
        How many processes; as many as this one has processors by default. With 1 everything runs in this one. Others
        import the calling script anew, so a script calls this under ``if __name__ == "__main__":``.
    progress : callable, optional
        Is called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    SweepTable
        Prints by algorithm; its `failures` run again by themselves.

    Raises
    ------
    OptionError
        If an option isn't one of those above, or no algorithm makes any of the windows.
    WorkerError
        If a process ends by itself.

    Notes
    -----
    The bounds are those of the page on verification; exact states are enclosed first by Wilkinson's running error bound
    (Higham, 2002, section 3.3).

    Examples
    --------
    >>> from recfact import Jagged
    >>> table = verify_many("bfloat16", "hierarchical", Jagged(4), cases=2000, processes=1)
    >>> table.cases >= 2000, table.failures
    (True, ())
    """
    chosen = [
        choice(name, "families", tuple(FAMILIES))
        for name in several(tuple(FAMILIES) if families is None else families, "families")
    ]
    kinds = [format_of(name) for name in several(_up_to_16_bits() if formats is None else formats, "formats")]
    steps = [positive_integer(n, "lengths", most=LONGEST) for n in several(lengths, "lengths")]
    for fmt in kinds:
        if not fmt.fits_float64:
            raise OptionError(f"cases are drawn in float64, which doesn't hold the numbers of {fmt}; verify takes them")
    variants = _variants(kinds, algorithms, windows, accumulate, fma, rounding, underflow)
    seed = positive_integer(seed, "seed", least=0, most=(1 << 128) - 1)
    batches = _batches(variants, tuple(chosen), positive_integer(cases, "cases", most=LONGEST), steps, seed)
    callback(progress, "progress")
    workers = _processors() if processes is None else positive_integer(processes, "processes")
    tallies: list[list[Tally]] = [[] for _ in batches]
    for done, (index, found) in enumerate(_run(batches, min(workers, len(batches))), 1):
        tallies[index] = found
        if progress is not None:
            progress(done / len(batches))
    return SweepTable.of((tally for found in tallies for tally in found), seed)


def _up_to_16_bits() -> list[FloatFormat]:
    return [fmt for fmt in FORMATS.values() if fmt.bits <= 16]


def _variants(
    formats: list[FloatFormat],
    algorithms: Any,
    windows: Any,
    accumulate: Any,
    fma: Any,
    rounding: str,
    underflow: str,
) -> dict[FloatFormat, tuple[Variant, ...]]:
    """Return every combination that there is, for each format."""
    names = [
        choice(name, "algorithms", COMPUTATIONS)
        for name in several(COMPUTATIONS if algorithms is None else algorithms, "algorithms")
    ]
    kept = [check_window(window) for window in several(windows, "windows")]
    inside = [None if name is None else format_of(name) for name in several(accumulate, "accumulate")]
    fused = [boolean(value, "fma") for value in several(fma, "fma")]
    choice(rounding, "rounding", ROUNDINGS)
    choice(underflow, "underflow", UNDERFLOWS)
    # The engine fuses in any case, and mixed precision has always two formats.
    wanted = dict.fromkeys(
        Variant(
            name,
            window,
            FORMATS["binary32"] if name == "mixed-precision" and operations is None else operations,
            fused_ or name == "engine",
            rounding,
            underflow,
        )
        for name, window, operations, fused_ in product(names, kept, inside, fused)
    )
    found = {
        fmt: tuple(variant for variant in wanted if makes(variant.algorithm, fmt, **variant.options()))
        for fmt in formats
    }
    if not any(found.values()):
        raise OptionError(
            f"none of the algorithms {', '.join(names)} makes one of the windows {', '.join(map(repr, kept))} in these "
            "formats and this arithmetic; 'sequential' makes all windows in every format"
        )
    return found


def makes(algorithm: str, fmt: FloatFormat, **options: Any) -> bool:
    """Return whether the algorithm makes the window, in the format and with the arithmetic that the options say."""
    step = np.ones(1)
    try:
        compute(step, step, fmt, algorithm, **{**DEFAULTS, **options})
    except OptionError:
        return False
    return True


def _batches(
    variants: dict[FloatFormat, tuple[Variant, ...]],
    families: tuple[str, ...],
    cases: int,
    lengths: list[int],
    seed: int,
) -> list[Batch]:
    """Share the cases out evenly; every batch has a seed of its own."""
    kinds = len(lengths) * len(families) * sum(map(len, variants.values()))
    channels = -(-cases // kinds)
    pieces = -(-channels * len(families) // LARGEST)
    shapes = [shape for shape in product(variants, lengths, range(pieces)) if variants[shape[0]]]
    seeds = np.random.SeedSequence(seed).generate_state(len(shapes), np.uint64).tolist()
    return [
        Batch(fmt, n, -(-channels // pieces), own, families, variants[fmt])
        for (fmt, n, _), own in zip(shapes, seeds, strict=True)
    ]


_GUARD = 'a script must call verify_many under if __name__ == "__main__":, and processes=1 does without processes'


def _run(batches: list[Batch], workers: int) -> Iterator[tuple[int, list[Tally]]]:
    """Yield the index and what was found of each batch, as they end."""
    if workers <= 1:
        yield from enumerate(map(run_batch, batches))
        return
    # Not forked: a fork copies whatever threads and locks the caller holds.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        futures = _submitted(pool, batches)
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise WorkerError(f"a process of the sweep ended by itself; {_GUARD}") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, batches: list[Batch]) -> dict[Future[list[Tally]], int]:
    """Return the index of each batch by its future."""
    try:
        return {pool.submit(run_batch, batch): index for index, batch in enumerate(batches)}
    except BrokenProcessPool:
        raise
    except RuntimeError:  # multiprocessing's, about freezing programs
        if current_process().name == "MainProcess":
            raise
        raise WorkerError(f"a process of the sweep ran the script that had started it; {_GUARD}") from None


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
