"""The hierarchical decomposition of the transfer operator, L = D + G Z T R."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from recfact.affine import Blocks, products
from recfact.arrays import Array
from recfact.checks import choice, positive_integer
from recfact.errors import OptionError
from recfact.factorizations.block_operators import BlockColumns, BlockRows, BlockTransfer, RankOne, Shift
from recfact.factorizations.blocks import SOLVERS, solve_blocks
from recfact.factorizations.notebook_drawing import draw_product
from recfact.factorizations.operator import Operator
from recfact.factorizations.scalars import as_coefficients, scalars_that_fit, times
from recfact.factorizations.transfer import TransferOperator
from recfact.factorizations.transposable import TransposableOperator, as_columns
from recfact.number_types import accumulator


class Parts(NamedTuple):
    """The five operators of L = D + G Z T R."""

    D: BlockTransfer
    G: BlockColumns
    Z: Shift
    T: Operator
    R: BlockRows

    def to_html(self) -> str:
        """Return the picture that a notebook shows: D + G Z T R."""
        names = (f"{name}, {part.shape[0]}x{part.shape[1]}" for name, part in self._asdict().items())
        return draw_product("L = D + G Z T R", [*zip(("", "+", "·", "·", "·"), names, self, strict=True)])

    def _repr_html_(self) -> str:  # a named tuple takes methods with an underscore, but no other such names
        return self.to_html()


class LocalOperators(Sequence[TransferOperator]):
    """The transfer operators L_1, ..., L_b of the blocks, built when asked for.

    Parameters
    ----------
    blocks : sequence of ndarray
        The coefficients of each block.
    """

    def __init__(self, blocks: Sequence[Array]) -> None:
        self.blocks = blocks

    def __len__(self) -> int:
        return len(self.blocks)

    @overload
    def __getitem__(self, t: int) -> TransferOperator: ...
    @overload
    def __getitem__(self, t: slice) -> "LocalOperators": ...
    def __getitem__(self, t: int | slice) -> "TransferOperator | LocalOperators":
        if isinstance(t, slice):
            return LocalOperators(self.blocks[t])
        return TransferOperator(self.blocks[t])

    def __repr__(self) -> str:
        return f"<LocalOperators of {len(self)} blocks>"


class Hierarchical(TransposableOperator):
    """The transfer operator as local solves, a recurrence of carriers and a reconstruction: L = D + G Z T R.

    The n steps are cut into b blocks of l steps. The last block may be shorter. Block t depends on the blocks before it
    only through the state at its border, the carrier s[t-1]:

        x[t] = L_t u[t] + g[t] s[t-1],    s[t] = c[t] s[t-1] + r[t]^T u[t],    s[-1] = 0.

    D holds the L_t, G the g[t], and R the r[t]^T. Z shifts by one block. T = (I - diag(c) Z)^-1 solves the recurrence
    of the carriers. This recurrence has the same form as the original one, so it may be cut into blocks again.

    ``h @ u`` runs the three stages: local solves, carriers, reconstruction.

    Parameters
    ----------
    a : array_like, shape (n,)
        Coefficients: any scalars of any sign, zeros included. ``a[0]`` enters g[0] but not the operator. An operator
        that has coefficients may stand in their place: a `TransferOperator`, or one of its factorizations.
    block : int or sequence of int
        Block length l. A sequence (l1, l2, ...) nests levels: the b carriers of blocks of l1 steps are cut into blocks
        of l2 carriers, and so on.
    local_solve : {"gemm", "scan", "sequential"}, default "gemm"
        How the blocks are solved. "gemm" forms their matrices and multiplies by them. "scan" runs the Kogge-Stone
        stages in all blocks at once. "sequential" is a loop over the l local steps.
    carrier_solve : {"gemm", "scan", "sequential"}, default "sequential"
        How the carriers of the last level are solved. "gemm" forms T, which has b^2 entries.

    Attributes
    ----------
    block : tuple of int
        Block lengths, level by level.
    blocks : int
        Number of blocks b.

    Raises
    ------
    ShapeError, DTypeError
        If `a` isn't one sequence of numbers.
    TypeError, OptionError
        If a block length isn't a positive integer, or a solver isn't one of the three.

    Notes
    -----
    ``h.T`` is the transpose, as for every LinearOperator. The five operators of the formula are ``h.parts.D``,
    ``.G``, ``.Z``, ``.T`` and ``.R``.

    The matrix product of "gemm" also multiplies by the zeros above the diagonal of L_t. So a NaN or inf in `u` reaches
    the whole block. With "scan" and "sequential" it doesn't reach the steps before it.

    On a GPU `local_solve` and `carrier_solve` don't matter. The engine of `recfact.solve` runs along all blocks at
    once, and then along the carriers.

    The decomposition is Theorem 3.3 of the sliding window recurrences paper, and the algorithm is its Algorithm 2. In
    the 1-based indices of the paper the boundary condition is x[t, 0] = s[t-1] with s_0 = 0.

    Examples
    --------
    >>> h = Hierarchical(np.full(16, 0.5), block=4)
    >>> h
    <16x16 Hierarchical (block 4) with dtype=float64>
    >>> h @ np.ones(16) == TransferOperator(np.full(16, 0.5)) @ np.ones(16)
    array([ True,  True,  True,  True,  True,  True,  True,  True,  True,
            True,  True,  True,  True,  True,  True,  True])
    >>> D, G, Z, T, R = h.parts
    >>> np.array_equal((D + G @ Z @ T @ R) @ np.eye(16), h.to_dense())
    True
    >>> h.c
    array([0.0625, 0.0625, 0.0625, 0.0625])
    >>> h.off_diagonal(2, 0).to_dense()[0]
    array([0.00390625, 0.0078125 , 0.015625  , 0.03125   ])
    """

    def __init__(
        self,
        a: Any,
        block: int | Sequence[int],
        *,
        local_solve: str = "gemm",
        carrier_solve: str = "sequential",
    ) -> None:
        self.a = as_coefficients(a)
        self.block = _check_block(block)
        self.local_solve = choice(local_solve, "local_solve", tuple(SOLVERS))
        self.carrier_solve = choice(carrier_solve, "carrier_solve", tuple(SOLVERS))
        self._blocks = Blocks.of(len(self.a), self.block[0])
        super().__init__(self.a.dtype, (len(self.a), len(self.a)))

    @property
    def title(self) -> str:
        """The lengths of the blocks, in words."""
        return f"block {', '.join(map(str, self.block))}"

    def _recurrence(self) -> Array:
        return self.a

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self._blocks.count

    @cached_property
    def _wide(self) -> Array:
        return self.a.astype(accumulator(self.dtype), copy=False)

    @cached_property
    def _coefficients(self) -> Array:
        return self._blocks.split(self._wide, 1)

    @cached_property
    def _propagation(self) -> Array:
        propagation = products(self._coefficients, axis=1)
        propagation.flags.writeable = False  # g, c and the parts are views of this array
        return propagation

    @cached_property
    def _readout(self) -> Array:
        backwards = self._coefficients[:, ::-1].copy()
        backwards[:, 1:] = backwards[:, :-1]
        backwards[:, 0] = 1
        readout = np.multiply.accumulate(backwards, axis=1)[:, ::-1]
        readout.flags.writeable = False
        return readout

    @property
    def local(self) -> LocalOperators:
        """The transfer operators L_t of the blocks, ``h.local[t]``."""
        return LocalOperators(self._blocks.each(self._coefficients))

    @property
    def g(self) -> tuple[Array, ...]:
        """Propagation factors of each block, which multiply the carrier: g[t][k] = a[t, k] ... a[t, 0]."""
        return self._blocks.each(self._propagation)

    @property
    def r(self) -> tuple[Array, ...]:
        """Readout of each block: the last row of L_t. It gives the block's own part of its carrier."""
        return self._blocks.each(self._readout)

    @property
    def c(self) -> Array:
        """Attenuation of each block, shape (b,): the product of its coefficients."""
        return self._propagation[:, -1]

    @cached_property
    def _carrier_operator(self) -> Operator:
        """The T of L = D + G Z T R, b x b: s = T v. If more levels follow, it is another `Hierarchical`."""
        if len(self.block) > 1:
            return Hierarchical(self.c, self.block[1:], local_solve=self.local_solve, carrier_solve=self.carrier_solve)
        return BlockTransfer(self.c, Blocks.of(self.blocks, self.blocks), self.carrier_solve)

    @cached_property
    def parts(self) -> Parts:
        """The five operators of L = D + G Z T R.

        * ``parts.D``, n x n, block-diagonal: the local solves.
        * ``parts.G``, n x b: the propagation of the carriers, diag(g[0], ..., g[b-1]).
        * ``parts.Z``, b x b: the shift by one block.
        * ``parts.T``, b x b: the carrier operator.
        * ``parts.R``, b x n: the readout of the blocks, diag(r[0]^T, ..., r[b-1]^T).
        """
        return Parts(
            BlockTransfer(self._wide, self._blocks, self.local_solve),
            BlockColumns(self._propagation, self._blocks),
            Shift(self.blocks, self._wide.dtype),
            self._carrier_operator,
            BlockRows(self._readout, self._blocks),
        )

    if not TYPE_CHECKING:  # with this method a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            if name in Parts._fields:
                raise AttributeError(
                    f"{name} of L = D + G Z T R is h.parts.{name}; h.T is the transpose, so the five operators have "
                    "their names on h.parts alone",
                    name=name,
                    obj=self,
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def carriers(self, u: Any) -> Array:
        """Return the carriers s[t], the states at the ends of the blocks, without reconstructing the rest.

        Parameters
        ----------
        u : array_like, shape (n,) or (n, m)
            Inputs.

        Returns
        -------
        ndarray, shape (b,) or (b, m)
            ``x[l-1::l]`` for x = L u, and the last state if the last block is shorter.

        Raises
        ------
        ShapeError
            If `u` has another shape.
        ArrayTypeError
            If `u` is on a GPU; ``h @ u`` runs there.

        Examples
        --------
        >>> Hierarchical(np.full(6, 0.5), block=3).carriers(np.ones(6))
        array([1.75   , 1.96875])
        """
        columns, dtype = as_columns(u, self.shape[1], self.dtype)
        with scalars_that_fit(dtype):
            return self._carrier_operator._apply(self._solve_locally(columns)[:, -1]).astype(dtype, copy=False)

    def off_diagonal(self, t: int, s: int) -> RankOne:
        """Return the block of L that takes the inputs of block s to the states of block t, as g[t] beta r[s]^T.

        Parameters
        ----------
        t, s : int
            Block indices, 0 <= s < t < b.

        Returns
        -------
        RankOne
            The block. Its attributes are the factors ``g``, ``beta`` = c[t-1] ... c[s+1], and ``r``.

        Raises
        ------
        OptionError
            If the block doesn't lie below the diagonal.
        """
        t, s = positive_integer(t, "t", least=0), positive_integer(s, "s", least=0)
        if not s < t < self.blocks:
            raise OptionError(
                f"off_diagonal(t, s) needs 0 <= s < t < {self.blocks} blocks, got t={t} and s={s}; the diagonal blocks "
                "are local[t], those above are zero"
            )
        beta = prod(self.c[t - 1 : s : -1])
        return RankOne(self.g[t], beta, self.r[s])

    def _solve_locally(self, u: Array) -> Array:
        return solve_blocks(self._coefficients, self._blocks.split(u, 0), self.local_solve)

    def _apply(self, x: Array) -> Array:
        states = self._solve_locally(x)
        carriers = self._carrier_operator._apply(states[:, -1])
        carried = carriers[:-1, None]
        states[1:] = states[1:] + times(self._propagation[1:], carried)
        return self._blocks.join(states)

    def _apply_transpose(self, x: Array) -> Array:
        D, G, Z, T, R = self.parts
        carried = Z._transpose()._apply(G._transpose()._apply(x))
        return D._transpose()._apply(x) + R._transpose()._apply(T._transpose()._apply(carried))


def _check_block(block: Any) -> tuple[int, ...]:
    levels = tuple(block) if isinstance(block, tuple | list) else (block,)
    if not levels:
        raise OptionError("block must be a length or a sequence of lengths, got an empty sequence")
    return tuple(positive_integer(length, "block") for length in levels)
