"""The parts of the hierarchical decomposition L = D + G Z T R, each an operator of its own."""

from typing import Any

import numpy as np

from recfact.affine import Blocks
from recfact.arrays import Array
from recfact.factorizations.blocks import solve_blocks
from recfact.factorizations.operator import Operator
from recfact.factorizations.scalars import times


class BlockTransfer(Operator):
    """Block-diagonal matrix of the transfer operators of the blocks (the paper's L_1, ..., L_b).

    With a single block it is the transfer operator itself. The carrier operator T uses it so.

    Parameters
    ----------
    a : ndarray, shape (n,)
        Coefficients.
    blocks : Blocks
        The partition of the n steps.
    solver : {"gemm", "scan", "sequential"}
        How the blocks are solved.
    reverse : bool, default False
        Whether to be the transpose.
    """

    def __init__(self, a: Array, blocks: Blocks, solver: str, reverse: bool = False) -> None:
        super().__init__(a.dtype, (blocks.steps, blocks.steps))
        self.a, self.blocks, self.solver, self.reverse = a, blocks, solver, reverse

    def _apply(self, x: Array) -> Array:
        states = solve_blocks(self.blocks.split(self.a, 1), self.blocks.split(x, 0), self.solver, self.reverse)
        return self.blocks.join(states)

    def _transpose(self) -> "BlockTransfer":
        return BlockTransfer(self.a, self.blocks, self.solver, not self.reverse)


class BlockColumns(Operator):
    """Block-diagonal matrix with one column in each block: the paper's G = diag(g_1, ..., g_b).

    Parameters
    ----------
    vectors : ndarray, shape (b, l)
        The columns.
    blocks : Blocks
        The partition of the n rows.
    from_right : bool, default False
        Multiply from the right, as the transpose of a `BlockRows` does.
    """

    def __init__(self, vectors: Array, blocks: Blocks, from_right: bool = False) -> None:
        super().__init__(vectors.dtype, (blocks.steps, blocks.count))
        self.vectors, self.blocks, self.from_right = vectors, blocks, from_right

    def _apply(self, x: Array) -> Array:
        return self.blocks.join(times(self.vectors, x[:, None], self.from_right))

    def _transpose(self) -> "BlockRows":
        return BlockRows(self.vectors, self.blocks, not self.from_right)


class BlockRows(Operator):
    """Block-diagonal matrix with one row in each block: the paper's R = diag(r_1^T, ..., r_b^T).

    Parameters
    ----------
    vectors : ndarray, shape (b, l)
        The rows.
    blocks : Blocks
        The partition of the n columns.
    from_right : bool, default False
        Multiply from the right, as the transpose of a `BlockColumns` does.
    """

    def __init__(self, vectors: Array, blocks: Blocks, from_right: bool = False) -> None:
        super().__init__(vectors.dtype, (blocks.count, blocks.steps))
        self.vectors, self.blocks, self.from_right = vectors, blocks, from_right

    def _apply(self, x: Array) -> Array:
        sums: Array = times(self.vectors, self.blocks.split(x, 0), self.from_right).sum(axis=1)
        return sums

    def _transpose(self) -> BlockColumns:
        return BlockColumns(self.vectors, self.blocks, not self.from_right)


class Shift(Operator):
    """The down-shift Z_b: (Z s)[t] = s[t-1]. Its transpose shifts up.

    Parameters
    ----------
    size : int
        Number of rows.
    dtype : dtype
        Number type of the operator.
    up : bool, default False
        Shift up instead.
    """

    def __init__(self, size: int, dtype: Any, up: bool = False) -> None:
        super().__init__(dtype, (size, size))
        self.up = up

    def _apply(self, x: Array) -> Array:
        shifted = np.zeros_like(x)
        if self.up:
            shifted[:-1] = x[1:]
        else:
            shifted[1:] = x[:-1]
        return shifted

    def _transpose(self) -> "Shift":
        return Shift(self.shape[0], self.dtype, not self.up)


class RankOne(Operator):
    """The outer product g beta r^T (Theorem 3.2 of the paper: an off-diagonal block of L).

    Parameters
    ----------
    g : ndarray, shape (rows,)
        Propagation factors of the block that receives.
    beta : scalar
        Attenuation by the blocks between the two.
    r : ndarray, shape (columns,)
        Readout of the block that sends.
    from_right : bool, default False
        Multiply from the right, as the transpose does.
    """

    def __init__(self, g: Array, beta: Any, r: Array, from_right: bool = False) -> None:
        super().__init__(g.dtype, (len(g), len(r)))
        self.g, self.beta, self.r, self.from_right = g, beta, r, from_right

    def _apply(self, x: Array) -> Array:
        read = times(self.r, x, self.from_right).sum(axis=0, keepdims=True)
        attenuated = times(np.array([self.beta], self.dtype), read, self.from_right)
        return times(self.g, attenuated, self.from_right)

    def _transpose(self) -> "RankOne":
        return RankOne(self.r, self.beta, self.g, not self.from_right)
