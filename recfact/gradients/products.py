"""`vjp` and `jvp`: the derivatives of the states that `solve` returns.

Both take every kind of array that `solve` takes. In exact arithmetic they are exact, over any scalars that commute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recfact.array_functions import widened
from recfact.checks import boolean
from recfact.errors import OptionError
from recfact.gradients.arguments import Given, solve_first
from recfact.gradients.differentials import derivative, transposed_derivative
from recfact.gradients.one_pass import one_pass
from recfact.gradients.states import through_segments
from recfact.state import State
from recfact.state_parts import holds_steps, initial_place
from recfact.windows import Full, Window, WindowLike, check_window

__all__ = ["jvp", "vjp"]


def __dir__() -> list[str]:
    return __all__


def vjp(
    a: Any,
    u: Any,
    g: Any,
    *,
    x0: Any = None,
    state: State | None = None,
    g_state: Any = None,
    offsets: Any = None,
    axis: int | str = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
    x: Any = None,
    out: tuple[Any, Any] | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of the arguments of `recfact.solve`, from the gradients of its result.

    For x = solve(a, u, ...) these are the derivatives of ``sum(g * x)``: the transpose of the linear map `jvp`.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, as for `recfact.solve`.
    g : array_like
        Cotangents of the states. They broadcast to the shape of the states.
    x0 : array_like, optional
        Initial state, as for `recfact.solve`.
    state : State, optional
        The State that the solve continued, as for `recfact.solve`. Segments are then solved one after another.
    g_state : array_like, optional
        Cotangents of the ``parts`` of the State that the solve returned, in their shape.
    offsets, axis, reverse, window
        As for `recfact.solve`.
    x : array_like, optional
        The states that the solve returned. Without a window they save one solve, but those in half precision don't.
    out : tuple of two arrays or None, optional
        Arrays for `da` and `du`, as NumPy's functions of several results take them. They are writable, have the shapes
        and the number type of the gradients, overlap with nothing else, and are tensors if the gradients are. None
        stands for new memory. Allocating new memory takes long for large arrays. `out` isn't allowed on a GPU.

    Returns
    -------
    da, du : array
        Gradients of coefficients and inputs, in the shapes of `a` and `u`. They are summed over the axes along which
        `a` and `u` were broadcast. They are tensors if `a` or `u` is one, CuPy arrays if one is, and NumPy arrays
        otherwise. Their number type is that of the states. For complex numbers nothing is conjugated: torch's gradients
        are ``conj(vjp(a, u, conj(g)))``.
    d0 : array or None
        The gradient of `x0`, in its shape, or of the ``parts`` of `state`. None if neither was given.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or options are out of range or exclude each other.
    DTypeError, ArrayTypeError
        (TypeErrors) As `recfact.solve`.

    Notes
    -----
    The formulas have no division, no logarithm and no subtraction. So they hold for coefficients that are 0, negative
    or large, and in exact arithmetic they are exact. If no product of coefficients underflows, the error of da at step
    k is at most ``gamma_N`` times the sum of ``|g_i P(i, k) P(k-1, j) u_j|`` over the pairs (i, j) that the window
    keeps. N is given on the page on gradients, where all this is derived. A uniform window takes eight solves. A jagged
    window of m terms takes 2 (m + 1) solves of its blocks. The initial state leaves a window together with the first
    input.

    Examples
    --------
    >>> import recfact as rf
    >>> da, du, dx0 = rf.gradients.vjp([0.5, 0.5, 0.5], [1.0, 2.0, 3.0], [0.0, 0.0, 1.0], x0=8.0)
    >>> da, du, dx0
    (array([2. , 2.5, 4.5]), array([0.25, 0.5 , 1.  ]), array(0.125))
    """
    window, reverse = check_window(window), boolean(reverse, "reverse")
    return pulled_back(Given(a, u, x0, axis, offsets, reverse), a, u, g, state, g_state, window, x, out)


def pulled_back(
    given: Given,
    a: Any,
    u: Any,
    g: Any,
    state: State | None,
    g_state: Any,
    window: Window,
    x: Any,
    out: tuple[Any, Any] | None,
    kept: Any = None,
) -> tuple[Any, Any, Any]:
    """Return what `vjp` does, whose other parameters are read in `given`, in the number types of `given`.

    The states that a solve on a GPU kept, if it did, help as all of them do.
    """
    x0, reverse = given.x0, given.reverse
    own_a, own_u, own_g = given.steps(a, "a"), given.steps(u, "u"), given.expanded(given.steps(g, "g"))
    initial, known = given.initial(x0, "x0"), given.known(x)
    at_a, at_u = given.places(out, a, u, {"a": a, "u": u, "g": g, "x": x, "x0": x0, "g_state": g_state})
    with np.errstate(all="ignore"):
        if state is None and g_state is None:
            engine = one_pass(given, initial, window, given.room(at_a), given.room(at_u), kept)
            da, du, d0 = transposed_derivative(
                own_a, own_u, own_g, initial, given.offsets, window, reverse, given.solve, known, engine
            )
            d0 = None if x0 is None else given.back_initial(d0, x0)
            return given.back(da, a, given.types[0], at_a), given.back(du, u, given.types[1], at_u), d0
        begins, ends = given.states(state, g_state, x0, initial, window, reverse)
        own_a, own_u = given.expanded(own_a), given.expanded(own_u)
        da, du, d0 = through_segments(own_a, own_u, own_g, begins, ends, given.cuts, solve_first)
        if state is not None:
            d0 = given.segments_back(d0, 1 + holds_steps(window))
        else:
            d0 = None if x0 is None else given.back_initial(d0[initial_place(window)], x0)
        return given.back(da, a, given.types[0], at_a), given.back(du, u, given.types[1], at_u), d0


def jvp(
    a: Any,
    u: Any,
    ta: Any,
    tu: Any,
    *,
    x0: Any = None,
    tx0: Any = None,
    offsets: Any = None,
    axis: int | str = -1,
    reverse: bool = False,
    window: WindowLike = Full(),
) -> Any:
    """Return the derivative of the states of `recfact.solve` along given changes of its arguments.

    Parameters
    ----------
    a, u : array_like
        Coefficients and inputs, as for `recfact.solve`.
    ta, tu : array_like
        Tangents of coefficients and inputs. Each broadcasts to the shape of the states.
    x0, tx0 : array_like, optional
        Initial state, as for `recfact.solve`, and its tangent. If only `x0` is given, its tangent is 0.
    offsets, axis, reverse, window
        As for `recfact.solve`.

    Returns
    -------
    array
        The derivative of ``solve(a + t * ta, u + t * tu, x0=x0 + t * tx0)`` by t at t = 0, in the shape of the
        states. It is a tensor, a CuPy array or a NumPy array, as for `vjp`.

    Raises
    ------
    ShapeError, OptionError
        (ValueErrors) If shapes don't fit, or options are out of range or exclude each other.
    DTypeError, ArrayTypeError
        (TypeErrors) As `recfact.solve`.

    Notes
    -----
    Besides the solve for the states, this takes one solve of the whole recurrence, or as many as `vjp` for a window.
    Derived on the page on gradients.

    Examples
    --------
    >>> import recfact as rf
    >>> rf.gradients.jvp([0.5, 0.5, 0.5], [1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0])
    array([0. , 1. , 0.5])
    """
    window, reverse = check_window(window), boolean(reverse, "reverse")
    given = Given(a, u, x0, axis, offsets, reverse)
    x0 = given.x0
    if tx0 is not None and x0 is None:
        raise OptionError("is the tangent of x0, which isn't there", "tx0", advice="pass x0=0.0 for an initial 0")
    a, u, ta, tu = (widened(given.steps(value, name)) for value, name in ((a, "a"), (u, "u"), (ta, "ta"), (tu, "tu")))
    x0, tx0 = given.initial(x0, "x0"), given.initial(tx0, "tx0")
    with np.errstate(all="ignore"):
        moved = derivative(a, u, ta, tu, x0, tx0, given.offsets, window, reverse, given.solve)
        return given.back(moved, None, given.dtype)
