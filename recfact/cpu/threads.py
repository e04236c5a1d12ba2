"""Calls on threads of their own, which are over when the caller goes on, even where it is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Event, Lock
from typing import TypeVar

Result = TypeVar("Result")


def run_all(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Make calls, each on a thread of its own, and return their results."""
    if len(calls) == 1:
        return [calls[0]()]
    interrupted = Event()

    def enter(gate: Lock, call: Callable[[], Result]) -> Result:
        with gate:
            if interrupted.is_set():
                raise CancelledError
            return call()

    gates = [Lock() for _ in calls]
    try:
        with ThreadPoolExecutor(len(calls)) as pool:
            futures = [pool.submit(enter, gate, call) for gate, call in zip(gates, calls, strict=True)]
            return [future.result() for future in futures]
    except BaseException:
        # A thread that an interrupt met while it was being started isn't known to the pool, and would write later.
        interrupted.set()
        for gate in gates:
            with gate:
                pass
        raise
