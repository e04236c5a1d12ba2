"""Verification of very many cases: formats, algorithms, windows and families of inputs, in parallel processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import product
from multiprocessing import current_process, get_context
from typing import Any

import numpy as np

from recfact.checks import LONGEST, callback, choice, positive_integer, several
from recfact.cpu.limits import processors
from recfact.errors import OptionError, RecfactError
from recfact.precision.arithmetic import Arithmetic
from recfact.precision.formats.catalogue import FORMATS
from recfact.precision.formats.float_format import FloatFormat
from recfact.precision.verification.case_families import FAMILIES
from recfact.precision.verification.computations import COMPUTATIONS, task_of
from recfact.precision.verification.sweep_batch import Batch, Tally, Variant, run_batch
from recfact.precision.verification.sweep_table import SweepTable
from recfact.windows import Full, Jagged, Uniform, Window, check_window

LENGTHS = (1, 2, 7, 16, 24, 45)  # 45: three blocks of the algorithms that choose their own
WINDOWS = (Full(), Uniform(4), Jagged(4), Jagged(3, 2))
LARGEST = 1 << 14
"""Most sequences in a batch."""


class WorkerError(RecfactError, RuntimeError):
    """A process of a sweep ended unexpectedly."""


def verify_many(
    formats: Any = None,
    algorithms: Any = None,
    windows: Window | Sequence[Window] = WINDOWS,
    families: Any = None,
    *,
    cases: int = 10_000,
    lengths: int | Sequence[int] = LENGTHS,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[float], object] | None = None,
) -> SweepTable:
    """Verify the error bounds of many random and adversarial cases, and find where they come closest to breaking.

    Parameters
    ----------
    formats : str, dtype, FloatFormat, Arithmetic, or sequence of these, optional
        Number formats, or whole arithmetics. By default these are all formats of the catalogue up to 16 bits, with and
        without fused products and sums.
    algorithms : str or sequence of str, optional
        Algorithms for the states, as in `verify`. By default all are run. Windows and arithmetics that an algorithm
        doesn't support are left out.
    windows : Window or sequence of them
        The windows.
    families : str or sequence of str, optional
        Names of `FAMILIES`, by default all.
    cases : int, default 10_000
        The smallest number of cases to verify. A case is a sequence and a way to compute its states. The cases are
        distributed evenly.
    lengths : int or sequence of int
        Numbers of steps.
    seed : int, default 0
        Seed of the cases, at least 0. The same seed gives the same table for any number of processes.
    processes : int, optional
        Number of processes, by default one for each processor. With 1 everything runs in the calling process. Other
        processes import the calling script again, so a script must call this under ``if __name__ == "__main__":``.
    progress : callable, optional
        Is called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    SweepTable
        The result, which prints a row for each algorithm. Each of its `failures` can be run again alone.

    Raises
    ------
    OptionError
        If an option isn't one of those above, or if no algorithm makes any of the windows.
    WorkerError
        If a process ends unexpectedly.

    Notes
    -----
    The bounds are those of the page on verification. Exact states are first enclosed by Wilkinson's running error bound
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
    arithmetics = [
        Arithmetic.of(each).of_given_operands()
        for each in several(_up_to_16_bits() if formats is None else formats, "formats")
    ]
    steps = [positive_integer(n, "lengths", most=LONGEST) for n in several(lengths, "lengths")]
    for how in arithmetics:
        if how.dtype == object:
            refused = how.format
            raise OptionError(f"cases are drawn in float64, which doesn't hold {refused}'s numbers; verify takes them")
    variants = _variants(arithmetics, algorithms, windows)
    seed = positive_integer(seed, "seed", least=0, most=(1 << 128) - 1)
    batches = _batches(variants, tuple(chosen), positive_integer(cases, "cases", most=LONGEST), steps, seed)
    callback(progress, "progress")
    workers = processors() if processes is None else positive_integer(processes, "processes")
    tallies: list[list[Tally]] = [[] for _ in batches]
    for done, (index, found) in enumerate(_run(batches, min(workers, len(batches))), 1):
        tallies[index] = found
        if progress is not None:
            progress(done / len(batches))
    return SweepTable.of((tally for found in tallies for tally in found), seed)


def _up_to_16_bits() -> list[Arithmetic]:
    return [Arithmetic(fmt, fma=fma) for fmt in FORMATS.values() if fmt.bits <= 16 for fma in (False, True)]


def _variants(arithmetics: list[Arithmetic], algorithms: Any, windows: Any) -> dict[FloatFormat, tuple[Variant, ...]]:
    """Return every possible combination for each format."""
    names = [
        choice(name, "algorithms", COMPUTATIONS)
        for name in several(COMPUTATIONS if algorithms is None else algorithms, "algorithms")
    ]
    kept = [check_window(window) for window in several(windows, "windows")]
    found: dict[FloatFormat, tuple[Variant, ...]] = {}
    for fmt in dict.fromkeys(how.format for how in arithmetics):
        own = [how for how in arithmetics if how.format == fmt]
        made = ((name, window, made_in(name, window, how)) for name, window, how in product(names, kept, own))
        found[fmt] = tuple(dict.fromkeys(Variant(name, window, how) for name, window, how in made if how is not None))
    if not any(found.values()):
        raise OptionError(
            f"none of the algorithms {', '.join(names)} makes one of the windows {', '.join(map(repr, kept))} in these "
            "formats and this arithmetic; 'sequential' makes all windows in every format"
        )
    return found


def made_in(algorithm: str, window: Window, arithmetic: Arithmetic) -> Arithmetic | None:
    """Return the arithmetic in which an algorithm makes a window if this one is wanted, or None if it doesn't.

    The engine always fuses, and mixed precision always has two formats.
    """
    try:
        task = task_of(algorithm, window, replace(arithmetic, fma=True) if algorithm == "engine" else arithmetic)
        task.states([(np.ones(1), np.ones(1), None)])
    except OptionError:
        return None
    return task.arithmetic


def _batches(
    variants: dict[FloatFormat, tuple[Variant, ...]],
    families: tuple[str, ...],
    cases: int,
    lengths: list[int],
    seed: int,
) -> list[Batch]:
    """Distribute the cases evenly over batches. Every batch has its own seed."""
    kinds = len(lengths) * len(families) * sum(map(len, variants.values()))
    channels = -(-cases // kinds)
    pieces = -(-channels * len(families) // LARGEST)
    shapes = [shape for shape in product(variants, lengths, range(pieces)) if variants[shape[0]]]
    seeds = np.random.SeedSequence(seed).generate_state(len(shapes), np.uint64).tolist()
    return [
        Batch(fmt, n, -(-channels // pieces), own, families, variants[fmt])
        for (fmt, n, _), own in zip(shapes, seeds, strict=True)
    ]


_GUARD = 'a script must call verify_many under if __name__ == "__main__":, or pass processes=1'


def _run(batches: list[Batch], workers: int) -> Iterator[tuple[int, list[Tally]]]:
    """Yield the index and the result of each batch as it ends."""
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
