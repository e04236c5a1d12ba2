"""The hierarchical algorithm as matrix products: blocks of L are formed, and multiplied by the inputs."""

from __future__ import annotations

from collections.abc import Callable

from recfact.affine import Blocks, carried, products
from recfact.arrays import Array


def blocks_by_products(
    a: Array,
    u: Array,
    block: int,
    terms: int | None = None,
    cast: Callable[[str, Array], Array] | None = None,
) -> Array:
    """Solve by blocks whose local solve is a product with the materialized block of L.

    Columns of a block are cumulative products of its coefficients, and rows are multiplied by the inputs from left to
    right. Carriers and reconstruction are those of `recfact.algorithms.hierarchical`. This is the order of the paper's
    Algorithm 4 on tensor cores, but for the order within a row, which the hardware chooses.

    Parameters
    ----------
    a, u : ndarray, shape (n, ...)
        Coefficients and inputs.
    block : int
        Steps in a block; the last one may be shorter.
    terms : int, optional
        Terms of the carrier operator to keep, as in `recfact.algorithms.hierarchical`; all of them by default.
    cast : callable, optional
        Is applied to what a mixed-precision kernel stores in the format of the inputs, with its name: columns "L" of
        the blocks from the second entry below the diagonal on (those above are coefficients), the cumulative products
        "g" from the second on, and the carriers "v" that are passed on.
    """
    blocks = Blocks.of(len(u), block)
    coefficients, inputs = blocks.split(a, 1).swapaxes(0, 1), blocks.split(u, 0).swapaxes(0, 1)

    def stored(name: str, values: Array) -> Array:
        return values if cast is None else cast(name, values)

    w = inputs.copy()
    for column in range(len(inputs) if len(u) else 0):
        entries = products(coefficients[column + 1 :])
        entries[1:] = stored("L", entries[1:])
        if column == 0:
            w[1:] = entries * inputs[0]
        else:
            w[column] = inputs[column] + w[column]
            w[column + 1 :] = entries * inputs[column] + w[column + 1 :]
    g = products(coefficients)
    g[1:] = stored("g", g[1:])
    v = stored("v", w[-1])
    if terms != 0:
        w[:, 1:] = g[:, 1:] * carried(g[-1], v, terms)[:-1] + w[:, 1:]
    return blocks.join(w.swapaxes(0, 1))
