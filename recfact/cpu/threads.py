"""Calls on several threads. They are finished when the caller goes on, even if it is interrupted."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

Result = TypeVar("Result")


def run_all(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Make calls at the same time, and return their results. The first one runs on the caller's thread.

    The other threads are bare ones, for safety from interrupts. If an interrupt meets `threading.Thread` or an executor
    while it starts a thread, nobody may wait for that thread, or all may wait for ever.
    """
    first, *others = calls
    if not others:
        return [first()]
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    interrupted = False
    gates, ends = [Lock() for _ in others], [Lock() for _ in others]

    def work(index: int) -> None:
        with gates[index]:
            if not interrupted:
                try:
                    results[index] = others[index]()
                except BaseException as error:  # the caller's thread raises any error again
                    errors.append(error)
        ends[index].release()

    for end in ends:
        end.acquire()
    try:
        for index in range(len(others)):
            start_new_thread(work, (index,))
        own = first()
        for end in ends:
            end.acquire()
    except BaseException:
        interrupted = True
        for gate in gates:
            with gate:  # a thread that holds it still writes; no other one will begin
                pass
        raise
    if errors:
        raise errors[0]
    return [own, *(results[index] for index in range(len(others)))]
