"""`solve` for a sequence that is cut into pieces, one on each rank of a group of processes.

The whole recurrence exchanges one pair per channel and rank (`carried`). A window exchanges the steps that it reaches
back to (`halo`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from recfact.arrays import as_numpy, broadcast_shape
from recfact.checks import boolean
from recfact.cuts import Piece, pieces
from recfact.errors import OptionError
from recfact.gradients.time_first import TimeFirst
from recfact.offsets import check_offsets
from recfact.past import history
from recfact.state_parts import holds_steps, initial_place, normal_form
from recfact.torch.carried import Carried, Line
from recfact.torch.halo import Halo, Moved
from recfact.torch.operators import computed_type, recurrence
from recfact.torch.ranks import Ranks
from recfact.torch.solver import operands
from recfact.torch.solver import solve as solve_here
from recfact.torch.states import State, checked_state, solve_through
from recfact.windows import Full, WindowLike, check_window, window_text

__all__ = ["solve"]


def __dir__() -> list[str]:
    return __all__


def solve(
    a: Any,
    u: Any,
    *,
    group: Any = None,
    dim: int = -1,
    window: WindowLike = Full(),
    state: Any = None,
    return_state: bool = False,
    offsets: Any = None,
    reverse: bool = False,
) -> Any:
    """Solve a sequence whose steps lie on several ranks, one piece behind the other, with gradients.

    All ranks of the group call this with their pieces, in the order of the ranks. Each gets the states of its piece.

    Parameters
    ----------
    a, u : tensor or number
        Coefficients and inputs of the steps of this rank, as for `recfact.torch.solve`. Ranks may have different
        numbers of steps, or none.
    group : ProcessGroup, optional
        The processes, by default all. Any backend of torch.distributed will do that gathers tensors of the device and,
        for windows, sends them.
    dim : int, default -1
        The axis along which the recurrence runs.
    window : Full, Uniform, Jagged or str, default Full()
        What is kept of the transfer operator of the whole sequence.
    state : State, optional
        What the whole sequence continues, as for `recfact.torch.solve`. Only the first rank that has steps reads it.
        All rows must be at the same step.
    return_state : bool, default False
        Whether to return the State after the last step of the whole sequence as well.
    offsets : tensor or array_like of int, shape (N + 1,), optional
        Where segments of the whole sequence start, and where the last one ends. They are the same on all ranks, and
        segments may lie on several of them. They exclude `state` and `return_state`.
    reverse : bool, default False
        Whether to run from the last step of the last rank to the first of the first one, x_i = u_i + a_{i+1} x_{i+1}:
        the transpose. It excludes `state` and `return_state`.

    Returns
    -------
    tensor
        The states of the steps of this rank. With `return_state` the result is a pair: the states and a `State`. The
        State is on the last rank that has steps, and the others have None. Without any steps all return their `state`.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or if options are out of range or exclude each other.
    DTypeError, ArrayTypeError, OptionTypeError
        (TypeErrors) If recfact doesn't compute in a number type, or if an argument has a wrong type.
    RankError
        (a RuntimeError) If another rank raised an error, which the message quotes, if the ranks differ in what must be
        the same, or if a rank has ended or doesn't call this within the timeout of the group.

    Notes
    -----
    First the ranks exchange 6 integers each: their lengths, and a check that they agree. Then the whole recurrence
    gathers two numbers per channel and rank, the map x -> c x + v of each piece, and its gradient gathers two again. A
    window sends to each rank the steps before its piece that its first step sees, from as many ranks as hold them. Its
    gradient sends as many numbers back. The transpose of a window sends these coefficients, and states back. This
    is the hierarchical decomposition of the sliding window recurrences paper, with the pieces of ranks as blocks.

    The result is that of one process, up to rounding: gamma_N with N = i - j + 7 plus the number of ranks. If the
    product of the coefficients of a piece overflows, states may overflow as well, as with chunks in `recfact.dask`.
    float16 and bfloat16 are computed in float32 and rounded once.

    There are derivatives of any order in reverse mode. If any rank needs gradients, all take part: the result of each
    rank must enter what is differentiated, even one without steps. The gradients of parameters that ranks share are
    sums over the ranks. There is no forward mode, torch.func or torch.compile here.

    Examples
    --------
    >>> import tempfile, torch, recfact as rf
    >>> from torch import distributed as dist
    >>> store = dist.FileStore(tempfile.mkstemp()[1], 1)
    >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)  # torchrun starts more, with no arguments
    >>> rf.torch.context_parallel.solve(0.5, torch.ones(3))
    tensor([1.0000, 1.5000, 1.7500])
    >>> dist.destroy_process_group()
    """
    if torch.compiler.is_compiling():
        raise OptionError("context_parallel.solve can't be compiled; call it outside of torch.compile")
    ranks = group if isinstance(group, Ranks) else Ranks(group)  # a layer has made them
    device = next((one.device for one in (u, a) if isinstance(one, Tensor)), None)
    own, told = ranks.meet(lambda: Own(a, u, dim, window, state, return_state, offsets, reverse), device)
    lengths, known, stated, recorded = (list(column) for column in zip(*told, strict=True))
    first = next((rank for rank, length in enumerate(lengths) if length), None)
    if first is None:
        return own.alone()
    if any(stated) and not stated[first]:
        required = f"must be on rank {first}, the first one that has steps"
        raise OptionError(required, "state", given=f"it on rank {stated.index(1)}", advice="pass it there, or on all")
    lengths[first] += known[first]
    cuts = [0, sum(lengths)] if own.offsets is None else check_offsets(own.offsets, sum(lengths)).tolist()
    parts = {piece.number: piece for piece in pieces(lengths, sorted(set(cuts)))}
    own_a, own_u = own.inputs(ranks.rank == first, any(stated))
    anchor = own_u.new_zeros((), requires_grad=any(recorded))
    last = max(parts) == ranks.rank and own.return_state
    if own.window == Full():
        nothing = own_u.new_zeros(own_u.shape[1:])
        x, _ = Carried.apply(own_a, own_u, nothing, anchor, Line(ranks, parts), own.reverse)
        end = State(own.window, x[-1:], 0, own.dtype) if last else None
        x = x.movedim(0, own.time.axis)
    elif own.reverse:
        halo, end = Halo.of(ranks, parts, own.window), None
        x = own.transposed(own_a, own_u, anchor, halo, parts.get(ranks.rank)).movedim(0, own.time.axis)
    else:
        halo = Halo.of(ranks, parts, own.window)
        border = Moved.apply(own_a, own_u, anchor, halo, False)
        x, end = own.windowed(own_a, own_u, border, parts.get(ranks.rank), last)
        hidden = halo.steps + (known[first] if ranks.rank == first else 0)
        x = x.narrow(own.time.axis, hidden, own.time.steps)
    x = x.to(own.dtype)
    return (x, end) if own.return_state else x


class Own:
    """The arguments of this rank."""

    def __init__(
        self, a: Any, u: Any, dim: Any, window: Any, state: Any, return_state: Any, offsets: Any, reverse: Any
    ) -> None:
        self.window, self.return_state = check_window(window), boolean(return_state, "return_state")
        self.reverse = boolean(reverse, "reverse")
        self.a, self.u, self.dim = operands(a, u, dim)
        self.dtype = torch.promote_types(self.a.dtype, self.u.dtype)
        shape = broadcast_shape(self.a, self.u)
        self.time = TimeFirst(shape, len(shape) + self.dim)
        self.offsets = None
        if offsets is not None:
            self.offsets = as_numpy(offsets.cpu() if isinstance(offsets, Tensor) else offsets, "offsets")
        if offsets is not None and (state is not None or self.return_state):
            required = "don't go with state and return_state here"
            raise OptionError(required, "offsets", advice="pass the State of a segment in a call without offsets")
        if self.reverse and (state is not None or self.return_state):
            advice = "leave one of them out"
            raise OptionError("doesn't go with state and return_state here", "reverse", advice=advice)
        self.state = state
        if state is not None:
            self.state = checked_state(state, self.window, self.time.beside(None), self.dtype, self.u)
            self.phase = _common(self.state.phase)

    @property
    def numbers(self) -> list[int]:
        """Steps, steps that stand for the State, whether there is a State, and whether gradients are recorded."""
        held = [] if self.state is None else [self.state.parts]
        recorded = torch.is_grad_enabled() and any(one.requires_grad for one in (self.a, self.u, *held))
        past = 0
        if self.state is not None and self.phase:
            block, _ = normal_form(self.window)
            past = (len(self.state.parts) - 1) * block + self.phase
        return [self.time.steps, past, self.state is not None, recorded]

    @property
    def alike(self) -> dict[str, str]:
        """Texts of all that must be the same on all ranks."""
        return {
            "window": window_text(self.window),
            "dim": f"axis {self.dim}",
            "return_state": str(self.return_state),
            "reverse": str(self.reverse),
            "offsets": str(None if self.offsets is None else self.offsets.tolist()),
            "a": f"steps of shape {tuple(self.time.turned(self.a).shape[1:])}",
            "u": f"{self.dtype} steps of shape {self.time.beside(None)}",
        }

    def alone(self) -> Any:
        """Return the result if no rank has steps."""
        if not self.return_state:
            return solve_here(self.a, self.u, dim=self.dim, reverse=self.reverse)
        return solve_through(self.a, self.u, None, self.state, None, self.dim, self.window)

    def inputs(self, is_first: bool, any_state: bool) -> tuple[Tensor, Tensor]:
        """Return coefficients and inputs with time first, after what stands for the State on the first rank."""
        wide, step = computed_type(self.dtype), self.time.beside(None)
        a, u = (self.time.front(one.to(wide)) for one in (self.a, self.u))
        u = u.expand(self.time.steps, *step)
        if any_state and holds_steps(self.window):  # its coefficients may not be shared
            a = a.expand(u.shape)
        if not is_first or self.state is None or not len(self.state.parts):
            return a, u
        if self.phase == 0:
            return a, torch.cat([u[:1] + a[:1] * self.state.parts[initial_place(self.window)], u[1:]])
        past_a, past_u = history(self.state.parts, normal_form(self.window)[0], self.phase)
        return torch.cat([past_a.expand(-1, *a.shape[1:]), a]), torch.cat([past_u, u])

    def windowed(
        self, a: Tensor, u: Tensor, border: tuple[Tensor, Tensor], piece: Piece | None, ends: bool
    ) -> tuple[Tensor, State | None]:
        """Return the states of the border and of the own steps, and the State after them if the sequence ends here."""
        axis = self.time.axis
        # With one axis alone torch.cat passes no gradients to empty tensors, and this rank would miss their exchange.
        a, u = (
            torch.cat([one.movedim(0, axis)[..., None] for one in both], axis)[..., 0]
            for both in zip(border, (a, u), strict=True)
        )
        if ends:
            x, end = solve_through(a, u, None, None, None, self.dim, self.window)
            return x, replace(end, dtype=self.dtype)
        cuts = None
        if piece is not None and not piece.has_one_segment:
            cuts = check_offsets([0, *(len(border[1]) + cut for cut in piece.cuts[1:])], u.shape[axis])
        return recurrence(a, u, None, cuts, self.dim, self.reverse, self.window), None

    def transposed(self, a: Tensor, u: Tensor, anchor: Tensor, halo: Halo, piece: Piece | None) -> Tensor:
        """Return the states of the transpose in a window, time first.

        Each rank transposes what it does forward: its steps make states of the border before them, which go back there.
        """
        border, _ = Moved.apply(a, u.new_zeros(halo.own, 0), anchor, halo, False)
        x, _ = self.windowed(a, u, (border, u.new_zeros(halo.steps, *u.shape[1:])), piece, False)
        x = x.movedim(self.time.axis, 0)
        _, back = Moved.apply(border.new_zeros(halo.steps, 0), x[: halo.steps], anchor, halo, True)
        total: Tensor = x[halo.steps :] + back
        return total


def _common(phase: Any) -> int:
    """Return the place in a block at which all rows of a State are."""
    values = phase.unique().tolist() if isinstance(phase, Tensor) else [phase]
    if len(values) != 1:
        required = f"must have all rows at the same step of a block, got steps {min(values)} to {max(values)}"
        raise OptionError(required, "state", advice="solve rows at other steps in calls of their own")
    return int(values[0])
