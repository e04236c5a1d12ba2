"""How the states of a windowed recurrence change with its coefficients and inputs, over any scalar and array library.

Everything is made of solves inside blocks, products and sums. There is no division, no logarithm and no difference.
Arrays have time on axis 0. Step k leads from state k - 1 to state k, and back for the transpose. Coefficient k belongs
to step k. docs/gradients.md proves the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from recfact.array_functions import beside, broadcast_to, column, concatenate, namespace, widened
from recfact.gradients.initial_states import Starts
from recfact.gradients.time_first import summed
from recfact.windows import Full, Jagged, Window, blocks_within

# Solves coefficients and inputs inside a window, forward or as the transpose, in the segments at hand.
Solve = Callable[[Any, Any, Window, bool], Any]


class Pass(NamedTuple):
    """A pass over memory in which an engine may make gradients.

    Parameters
    ----------
    states : callable or None
        Solves coefficients and inputs for the states that it reads, in the type of the computation. None, or a function
        that returns None, if it reads the inputs instead.
    run : callable
        It takes coefficients, inputs, cotangents, and the states or None. It knows the initial states. It returns the
        gradients of coefficients, inputs, and initial states if there are any, or None if the engine makes them in no
        single pass. The first may be summed to the shape of the coefficients.
    transpose : callable or None
        Solves coefficients and cotangents for the gradient of the inputs of the transpose, which `run` doesn't return.
        None if the engine makes no gradients of the transpose.
    """

    states: Callable[[Any, Any], Any] | None
    run: Callable[[Any, Any, Any, Any], tuple[Any, Any, Any] | None]
    transpose: Callable[[Any, Any], Any] | None = None


def transposed_derivative(
    a: Any,
    u: Any,
    g: Any,
    x0: Any,
    offsets: Any,
    window: Window,
    reverse: bool,
    solve: Solve,
    x: Any = None,
    engine: Pass | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of the sum of g times the states, with respect to coefficients, inputs and initial states.

    Parameters
    ----------
    a, u, g : array, shape (n, ...)
        Coefficients, inputs and cotangents of the states.
    x0 : array, shape (N, ...), or None
        Initial states of the segments.
    x : array, optional
        The states, if they are known.
    engine : Pass, optional
        It is tried first.
    """
    # For the transpose, inputs and cotangents change roles. The states are then the gradient of the inputs.
    inputs, cotangents, forward, back = (g, u, None, x) if reverse else (u, g, x, None)
    found = None
    if engine is not None:
        if engine.states is not None and forward is None:
            forward = engine.states(a, inputs)
        found = engine.run(a, inputs, cotangents, forward)
    if found is not None:
        if not reverse:
            return found
        if forward is None and engine is not None and engine.transpose is not None:
            forward = engine.transpose(a, inputs)
        return found[0], forward, None
    a, inputs, cotangents = widened(a), widened(inputs), widened(cotangents)
    if x0 is not None:
        starts = Starts(len(a), offsets)
        first = starts.taken(a)
        inputs = inputs + starts.spread(first * x0)
    da, forward, back = coefficient_gradient(BlockSolves(a, window, offsets, solve), inputs, cotangents, forward, back)
    if reverse:
        return da, forward, None
    if x0 is None:
        return da, back, None
    entering = starts.taken(back)
    return da + starts.spread(summed(entering * x0, (len(entering), *da.shape[1:]))), back, first * entering


def derivative(
    a: Any, u: Any, ta: Any, tu: Any, x0: Any, tx0: Any, offsets: Any, window: Window, reverse: bool, solve: Solve
) -> Any:
    """Return how the states change along tangents of coefficients, inputs and initial states.

    Parameters are those of `transposed_derivative`.
    """
    if x0 is not None:
        starts = Starts(len(a), offsets)
        u, tu = u + starts.spread(starts.taken(a) * x0), tu + starts.spread(starts.taken(ta) * x0)
        if tx0 is not None:
            tu = tu + starts.spread(starts.taken(a) * tx0)
    return tangent(BlockSolves(a, window, offsets, solve), u, ta, tu, reverse)


class BlockSolves:
    """The blocks of a window, with solves inside them and sums across them.

    Parameters
    ----------
    a : array, shape (n, ...)
        Coefficients.
    window : Window
        What is kept. The blocks of `Uniform` have as many steps as it has lags.
    offsets : ndarray of int64, shape (N + 1,), or None
        Where segments start, and where the last one ends.
    solve : callable
        Solves in the same segments.
    """

    def __init__(self, a: Any, window: Window, offsets: Any, solve: Solve) -> None:
        self.xp = namespace(a)
        self.solve, self.a, n = solve, a, len(a)
        block, terms = blocks_within(window, n)
        self.slides = block == 1 and terms > 0
        self.block, self.terms = (terms + 1, 1) if self.slides else (block, terms)
        self.window = Full() if block == n else Jagged(self.block, 0)
        self.inside = self.across = None
        if block < n or offsets is not None:
            self._find(a, offsets)

    def _find(self, a: Any, offsets: Any) -> None:
        n = len(a)
        steps = np.arange(n)
        first, end = np.zeros(n, int), np.full(n, n)
        if offsets is not None:
            lengths = np.diff(offsets)
            first, end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
        self.first, self.end = first, end
        self.place = (steps - first) % self.block
        self.inside = column(a, self.place[1:] != 0)
        self.across = column(a, (self.place[1:] == 0) & (first[1:] != steps[1:]))

    def where(self, mask: Any, values: Any) -> Any:
        """Return the values where a mask is true, and 0 elsewhere."""
        return values if mask is None else self.xp.where(mask, values, 0)

    def local(self, u: Any, reverse: bool, a: Any = None) -> Any:
        """Solve inside the blocks."""
        return self.solve(self.a if a is None else a, u, self.window, reverse)

    def source(self, x: Any, reverse: bool) -> Any:
        """Return the states that steps 1 to n - 1 start from."""
        return x[1:] if reverse else x[:-1]

    def onto(self, steps: Any, reverse: bool) -> Any:
        """Return values of steps 1 to n - 1 at the states they lead to. The first state gets 0: no step leads to it."""
        nothing = broadcast_to(steps[:0].sum(0), (min(len(self.a), 1), *steps.shape[1:]))
        return concatenate([steps, nothing] if reverse else [nothing, steps])

    def carried(self, x: Any, reverse: bool, a: Any = None) -> Any:
        """Return what each block passes to the next one, at the first state of the next one."""
        a = self.a if a is None else a
        return self.onto(self.where(self.across, a[1:] * self.source(x, reverse)), reverse)

    def parts(self, u: Any, reverse: bool) -> list[Any]:
        """Return what inputs contribute to the states: those of the same block, of the block before, and so on."""
        parts = [self.local(u, reverse)]
        for _ in range(self.terms):
            parts.append(self.local(self.carried(parts[-1], reverse), reverse))
        return parts


def coefficient_gradient(blocks: BlockSolves, u: Any, g: Any, x: Any = None, back: Any = None) -> tuple[Any, Any, Any]:
    """Return the gradient of g^T L u with respect to the coefficients, and L u and L^T g.

    Parameters
    ----------
    blocks : BlockSolves
        Coefficients and window of L.
    u, g : array, shape (n, ...)
        Inputs and cotangents.
    x, back : array, optional
        L u and L^T g, if they are known. They only help if there is a single block.
    """
    if blocks.slides:
        return _sliding_gradient(blocks, u, g)
    forward = blocks.parts(u, False) if x is None or blocks.terms else [x]
    backward = blocks.parts(g, True) if back is None or blocks.terms else [back]
    sums = _running_sums(forward)
    total = None
    for q, part in enumerate(backward):
        product = blocks.where(blocks.inside, part[1:] * sums[blocks.terms - q][:-1])
        if q < blocks.terms:
            product = product + blocks.where(blocks.across, part[1:] * sums[blocks.terms - q - 1][:-1])
        total = product if total is None else total + product
    return blocks.onto(total, False), sums[-1], _running_sums(backward)[-1]


def _running_sums(parts: list[Any]) -> list[Any]:
    sums = parts[:1]
    for part in parts[1:]:
        sums.append(sums[-1] + part)
    return sums


def tangent(blocks: BlockSolves, u: Any, ta: Any, tu: Any, reverse: bool) -> Any:
    """Return how the states L u, or L^T u, change along tangents of coefficients and inputs."""
    if blocks.slides:
        return _sliding_tangent(blocks, u, ta, tu, reverse)
    before, carried, total = None, None, None
    for part in blocks.parts(u, reverse):
        steps = blocks.where(blocks.inside, blocks.source(part, reverse))
        if before is not None:
            steps = steps + blocks.where(blocks.across, blocks.source(before, reverse))
        entering = blocks.onto(ta[1:] * steps, reverse)
        entering = entering + (tu if carried is None else carried)
        moved = blocks.local(entering, reverse)
        total = moved if total is None else total + moved
        before, carried = part, blocks.carried(moved, reverse)
    return total


class Sliding:
    """A uniform window of K lags as blocks of K steps. Each step drops one more input of the block before.

    The state of step i has two parts. One is the sum over its own block. The other is what is left of the block before:
    its sum at the end of that block, times the product of the coefficients since (van Herk 1992; Gil and Werman 1993).

    Attributes
    ----------
    since : array
        Products of the coefficients from the end of the block before to each step.
    until : array
        Products of the coefficients after each step to the end of its block. They are 0 in blocks that aren't whole.
    """

    def __init__(self, blocks: BlockSolves) -> None:
        self.blocks = blocks
        lags, steps = blocks.block, np.arange(len(blocks.a))
        place, first, end = blocks.place, blocks.first, blocks.end
        self.earlier = np.maximum(steps - (lags - 1), 0)
        self.has_earlier = column(blocks.a, (place < lags - 1) & (steps - first >= lags))
        self.later = np.minimum(steps + (lags - 1), end - 1)
        self.has_later = column(blocks.a, (place >= 1) & (steps - place + lags < end))
        self.ones = blocks.xp.ones_like(blocks.a)
        self.ends = blocks.where(column(blocks.a, place == lags - 1), self.ones)
        self.since = blocks.local(self.first_steps(blocks.a), False)
        self.until = blocks.local(self.ends, True)

    def first_steps(self, a: Any) -> Any:
        """Return the coefficients of the steps that lead from block to block, and 0 elsewhere."""
        return self.blocks.onto(self.blocks.where(self.blocks.across, a[1:]), False)

    def left(self, y: Any) -> Any:
        """Return for each step the sum of those numbers of the block before that it still sees."""
        sums = self.blocks.local(y, True, self.ones)
        return self.blocks.where(self.has_earlier, sums[beside(y, self.earlier)])

    def seen(self, y: Any) -> Any:
        """Return for each step the sum of those numbers of the next block that still see it."""
        sums = self.blocks.local(y, False, self.ones)
        return self.blocks.where(self.has_later, sums[beside(y, self.later)])


def _sliding_gradient(blocks: BlockSolves, u: Any, g: Any) -> tuple[Any, Any, Any]:
    sliding = Sliding(blocks)
    since, until = sliding.since, sliding.until
    own, own_back = blocks.local(u, False), blocks.local(g, True)
    left, seen = sliding.left(until * u), sliding.seen(since * g)
    of_since, of_until = blocks.local(g * left, True), blocks.local(u * seen, False)
    steps = blocks.where(
        blocks.inside, own_back[1:] * own[:-1] + since[:-1] * of_since[1:] + until[1:] * of_until[:-1]
    ) + blocks.where(blocks.across, of_since[1:])
    return blocks.onto(steps, False), own + since * left, own_back + until * seen


def _sliding_tangent(blocks: BlockSolves, u: Any, ta: Any, tu: Any, reverse: bool) -> Any:
    sliding = Sliding(blocks)
    since, until = sliding.since, sliding.until

    def moved(x: Any, inputs: Any, back: bool) -> Any:
        """Return how states inside the blocks change with the coefficients and their inputs."""
        steps = blocks.where(blocks.inside, ta[1:] * blocks.source(x, back))
        return blocks.local(inputs + blocks.onto(steps, back), back)

    own = moved(blocks.local(u, reverse), tu, reverse)
    d_since = moved(since, sliding.first_steps(ta), False)
    d_until = moved(until, blocks.xp.zeros_like(sliding.ends), True)
    if reverse:
        seen, d_seen = sliding.seen(since * u), sliding.seen(d_since * u + since * tu)
        return own + d_until * seen + until * d_seen
    left, d_left = sliding.left(until * u), sliding.left(d_until * u + until * tu)
    return own + d_since * left + since * d_left
