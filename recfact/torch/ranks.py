"""The processes of a group that solve one sequence together: how they agree, exchange numbers, and end together.

A rank that fails still takes part in the next exchange, and says so there. All ranks then raise an error. So none of
them waits for a rank that has given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from recfact.errors import OptionError, OptionTypeError, RankError


class Share(Protocol):
    """What a rank brings."""

    @property
    def numbers(self) -> list[int]:
        """Numbers that the other ranks need."""

    @property
    def alike(self) -> dict[str, str]:
        """Texts by name that must be the same on all ranks."""


Own = TypeVar("Own", bound=Share)


class Ranks:
    """The processes of a group.

    Parameters
    ----------
    group : ProcessGroup or None
        The group, or None for the default one.

    Attributes
    ----------
    rank, size : int
        The number of this process in the group, and how many there are.

    Raises
    ------
    OptionError, OptionTypeError
        If there is no such group, or if this process isn't in it.
    """

    def __init__(self, group: Any) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            required = "needs processes that torch.distributed connects"
            raise OptionError(required, "group", advice="call torch.distributed.init_process_group first")
        self.group: Any = dist.group.WORLD if group is None else group
        if self.group is dist.GroupMember.NON_GROUP_MEMBER:
            raise OptionError("must be a group that this process is in", "group", advice="call it on its ranks only")
        if not isinstance(self.group, dist.ProcessGroup):
            advice = "torch.distributed.new_group makes one, and mesh.get_group() is that of a device mesh"
            raise OptionTypeError("must be a process group", "group", given=group, advice=advice)
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)

    def __deepcopy__(self, _: Any) -> Ranks:
        """Return the same processes. A group can't be copied, but layers are."""
        return self

    def meet(self, made: Callable[[], Own], device: Any) -> tuple[Own, list[list[int]]]:
        """Return what this rank brings, made by `made`, and the numbers of each rank.

        Raises
        ------
        RankError
            If another rank fails, or if the ranks don't agree.
        """
        kept: list[Own] = []

        def numbers() -> Tensor:
            kept.append(made())
            signature = hash_of(repr(kept[0].alike))
            return torch.tensor([signature, *kept[0].numbers], dtype=torch.int64, device=device)

        rows = self.gather(numbers, 1 + NUMBERS, torch.empty(0, dtype=torch.int64, device=device)).tolist()
        if any(row[0] != rows[0][0] for row in rows):
            self._differ(kept[0].alike)
        return kept[0], [row[1:] for row in rows]

    def gather(self, work: Callable[[], Tensor], size: int, like: Tensor) -> Tensor:
        """Return the numbers that `work` returns on each rank, a row for each.

        Parameters
        ----------
        work : callable
            Returns a tensor of shape (size,), in the number type and on the device of `like`.

        Raises
        ------
        RankError
            If another rank fails.
        """
        error = None
        try:
            own = work()
        except Exception as raised:
            own, error = like.new_zeros(size), raised
        message = torch.cat([own, own.new_full((1,), error is not None)])
        rows = message.new_empty(self.size, size + 1)
        with self._together():
            dist.all_gather([*_real(rows).unbind(0)], _real(message), group=self.group)
        if rows[:, -1].any():
            self._end(error)
        return rows[:, :-1]

    def swap(self, messages: dict[int, Tensor], sizes: dict[int, int], like: Tensor) -> dict[int, Tensor]:
        """Send messages to ranks, and return those of other ranks, in sizes that both sides know."""
        found = {rank: like.new_empty(size) for rank, size in sizes.items()}
        calls = [dist.P2POp(dist.irecv, _real(own), self._number(rank), self.group) for rank, own in found.items()]
        calls += [dist.P2POp(dist.isend, _real(own), self._number(rank), self.group) for rank, own in messages.items()]
        with self._together():
            for call in dist.batch_isend_irecv(calls) if calls else []:
                call.wait()
        return found

    def _number(self, rank: int) -> int:
        number: int = dist.get_global_rank(self.group, rank)
        return number

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise RankError(
                "the ranks lost each other: one has ended, or didn't call this as well within the timeout of the group "
                f"({error})"
            ) from error

    def _end(self, error: Exception | None) -> None:
        """Raise the error of this rank, or one about the first rank that failed."""
        texts = self._texts(None if error is None else f"{type(error).__name__}: {error}")
        if error is not None:
            raise error
        rank, text = next((rank, text) for rank, text in enumerate(texts) if text is not None)
        raise RankError(f"rank {rank} failed: {text}")

    def _differ(self, own: dict[str, str]) -> None:
        """Raise an error about the first rank that differs from rank 0."""
        texts = self._texts(own)
        name, rank = next(
            (name, rank) for name in own for rank, other in enumerate(texts) if other[name] != texts[0][name]
        )
        raise RankError(
            f"must be the same on all ranks, got {texts[0][name]} on rank 0 and {texts[rank][name]} on rank {rank}",
            name,
        )

    def _texts(self, own: Any) -> list[Any]:
        texts: list[Any] = [None] * self.size
        with self._together():
            dist.all_gather_object(texts, own, group=self.group)
        return texts


NUMBERS = 4
"""How many numbers a rank tells the others before a solve."""


def hash_of(text: str) -> int:
    """Return a number for a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest())


def _real(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor as real ones. Not every backend sends complex numbers."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
