"""`tune`: the plans that may be the fastest for a solve, timed on the GPU at hand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from recfact.arrays import library_of
from recfact.errors import ArrayTypeError, ShapeError
from recfact.gpu import tuned
from recfact.gpu.availability import current_gpu
from recfact.gpu.cuda_streams import is_captured
from recfact.gpu.device_arrays import DeviceArray
from recfact.gpu.launch import alternatives
from recfact.gpu.operands import given_arrays, on_the_gpu, solve_options
from recfact.gpu.run import device_of, forget_plans, prepared_launch, start
from recfact.gpu.sequences import of_sequences
from recfact.gpu.solves import Solve
from recfact.gpu.timing import Effort, time_calls
from recfact.windows import Full, WindowLike

EFFORT = Effort((), rounds=7, calls=5, busy=1 << 30)


def tune(
    a: Any,
    u: Any,
    *,
    x0: Any = None,
    axis: int = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    offsets: Any = None,
    precision: str = "full",
) -> dict[str, float]:
    """Time the plans that may be the fastest for a solve, and launch the fastest for solves of this kind from now on.

    These are the kernels that can do it, also with half or twice as many warps as the estimate asks for, and `b2p` with
    fewer tiles on their way. Without this, plans are chosen by the estimate. The fastest one is kept on disk for this
    card and its driver, in ``recfact/gpu.json`` in the folder for caches (``XDG_CACHE_HOME``, or ``~/.cache``). Delete
    the file to forget it.

    Parameters
    ----------
    a, u, x0, axis, reverse, window, offsets, precision
        As for `recfact.gpu.solve`, with arrays on a GPU.

    Returns
    -------
    dict of str to float
        Seconds of a solve by the name of the plan, as "sweep" or "b2p, twice the warps", the fastest first. There may
        be only one.

    Raises
    ------
    ArrayTypeError
        (a TypeError) If none of the arrays is on a GPU.
    ShapeError, OptionError, DTypeError, DeviceError
        As for `recfact.gpu.solve`. Arrays that are solved slice by slice can't be tuned.

    Notes
    -----
    Solves are of one kind if they have the same number types, window and options, if their channels and steps lie
    alike, and if their lengths have the same powers of two: with `offsets` also the number of segments, the longest,
    and what divides where they start. Kernels round differently, so the last bits of results may change.

    Examples
    --------
    >>> from recfact import gpu
    >>> if gpu.why_unavailable() is None:
    ...     import cupy
    ...
    ...     u = cupy.ones((128, 8192, 16), "float16")
    ...     print(gpu.tune(u[:, :, :1] / 2, u, axis=1, window="jagged:16"))
    """
    window, reverse = solve_options(window, reverse, precision, x0)
    current_gpu()
    given = given_arrays(a, u, x0=x0)
    if "gpu" not in map(library_of, given.values()):
        raise ArrayTypeError("must be on a GPU, to time kernels there", "u", given=u, advice="use cupy.asarray")
    with on_the_gpu(given, axis, offsets, window, reverse, precision) as (solve, starts):
        try:
            return fastest(of_sequences(solve, starts))
        except ShapeError as error:
            raise ShapeError(
                "a and u must be solved by one launch to be tuned, and have too many axes that lie apart in memory; "
                "copy them to contiguous arrays"
            ) from error


def tune_first(solve: Solve[DeviceArray]) -> None:
    """Time the kernels of a solve if the user asks for that and none of its kind was timed on its GPU.

    It says on stderr what it found. Solves that timing would spoil aren't timed: those into their own inputs, and those
    that a CUDA graph captures.
    """
    in_place = solve.written and solve.u.address == solve.x.address
    if not tuned.asked() or in_place or is_captured():
        return
    try:
        kind = tuned.kind_of(solve)
        if tuned.winner(solve.x.device, kind) is None and (solve.x.device, kind) not in _alone:
            found = fastest(solve)
            if len(found) > 1:
                times = ", ".join(f"{name} {1e6 * seconds:.1f} µs" for name, seconds in found.items())
                sys.stderr.write(f"recfact: timed {kind}: {times}\n")
            else:
                _alone.add((solve.x.device, kind))
    except ShapeError:  # it takes several launches
        return


_alone: set[tuple[int, str]] = set()  # kinds that a single kernel can do


def fastest(solve: Solve[DeviceArray]) -> dict[str, float]:
    """Time the plans of a solve, and keep the fastest for its kind. Errors are those of `alternatives`."""
    device = solve.x.device
    calls: dict[str, Callable[[], Any]] = {
        name: partial(start, solve, prepared_launch(launch, device))
        for name, launch in alternatives(solve, device_of(device)).items()
    }
    seconds = time_calls(calls, EFFORT) if len(calls) > 1 else dict.fromkeys(calls, 0.0)
    found = dict(sorted(seconds.items(), key=lambda pair: pair[1]))
    if len(found) > 1:
        tuned.keep(device, tuned.kind_of(solve), next(iter(found)))
        forget_plans()
    return found
