"""The Phalanx layer: projections, gates and a windowed recurrence, trained like any other module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import gcd, inf
from typing import Any

import torch
from torch import Tensor, nn

from recfact.checks import boolean, choice, positive_integer
from recfact.errors import OptionError, OptionTypeError, ShapeError
from recfact.gating import mixed
from recfact.torch import context_parallel
from recfact.torch.mixer import mix
from recfact.torch.ranks import Ranks
from recfact.torch.solver import solve
from recfact.torch.states import State
from recfact.windows import Jagged, WindowLike, check_window

COEFFICIENTS = ("sigmoid", "tanh", "learned", "constant")
HEAD = 16


class Phalanx(nn.Module):
    """A layer that mixes steps by a recurrence in a window, between the projections of a Transformer.

    From the steps X it computes a coefficient and values for each head, and two gates for each group of heads:

        a = sigmoid(X Wa),  k = sigmoid(X Wk),  q = X Wq,  v = X Wv,
        x_i = a_i x_{i-1} + k_i v_i in the window,  out = (q x + v) Wo.

    Parameters
    ----------
    dim : int
        Number of features of a step.
    heads : int, optional
        Number of heads. Each has one coefficient and ``dim // heads`` features. By default heads have 16 features.
    gate_groups : int, optional
        Number of groups of heads that share their gates. The default is the largest common divisor of 8 and the number
        of heads.
    window : Full, Uniform, Jagged or str, default Jagged(16)
        What is kept of the transfer operator.
    coefficient : {"sigmoid", "tanh", "learned", "constant"}, default "sigmoid"
        How coefficients are made. "sigmoid" and "tanh" are functions of the step. Those of "tanh" have either sign.
        "learned" is the logistic function of a parameter, one for each head. "constant" is the number `most`.
    most : float, default 1.0
        The largest coefficient. The functions are multiplied by it. With 0.8, for example, every input fades. Above 1
        inputs may grow, but only as far as the window reaches: by at most ``most**31`` in the default one.
    gates : bool, default True
        Whether there are gates. Without them k = q = 1.
    bias : bool, default False
        Whether the projections of coefficients and gates have biases.
    group : ProcessGroup, optional
        Processes that have one piece each of the same sequences, in the order of their ranks, as for
        `recfact.torch.context_parallel.solve`. The gradients of the weights are then sums over the ranks.
    device, dtype
        Device and number type of the parameters, as for ``torch.nn.Linear``.

    Attributes
    ----------
    coefficient : Linear, Parameter of logits, or None
    key, query : Linear, or None
        The projections of k and q, to ``gate_groups`` times the features of a head.
    value, out : Linear

    Raises
    ------
    OptionError
        (a ValueError) If an option is out of its range, or if features, heads and groups don't divide each other.
    OptionTypeError
        (a TypeError) If an option has a wrong type.

    Notes
    -----
    Coefficients and states are computed in float32 at least, whatever autocast says. In bfloat16 a logistic function
    would be exactly 1 from 6.24 on. The layer is that of section 5 of the sliding window recurrences paper. The page on
    the layer says which parts of it are options here.

    Examples
    --------
    >>> import torch, recfact as rf
    >>> layer = rf.torch.Phalanx(64)
    >>> x = torch.randn(2, 40, 64)
    >>> y, state = layer(x[:, :39], return_state=True)
    >>> last, state = layer.step(x[:, 39], state)
    >>> torch.allclose(last, layer(x)[:, 39], atol=1e-5)
    True
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int | None = None,
        gate_groups: int | None = None,
        window: WindowLike = Jagged(16),
        coefficient: str = "sigmoid",
        most: float = 1.0,
        gates: bool = True,
        bias: bool = False,
        group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.dim = positive_integer(dim, "dim")
        if heads is None and self.dim % HEAD:
            raise OptionError(f"must be a multiple of {HEAD}", "dim", given=dim, advice="pass heads, which divide it")
        self.heads = self.dim // HEAD if heads is None else positive_integer(heads, "heads")
        if self.dim % self.heads:
            raise OptionError(f"must divide the {self.dim} features", "heads", given=heads, advice="pass a divisor")
        groups = gcd(8, self.heads) if gate_groups is None else positive_integer(gate_groups, "gate_groups")
        if self.heads % groups:
            raise OptionError(
                f"must divide the {self.heads} heads", "gate_groups", given=groups, advice="pass a divisor"
            )
        self.gate_groups, self.window = groups, check_window(window)
        self.kind, self.most = choice(coefficient, "coefficient", COEFFICIENTS), _finite(most)
        gates, bias = boolean(gates, "gates"), boolean(bias, "bias")
        self.ranks = None if group is None else Ranks(group)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        gate = groups * (self.dim // self.heads)
        self.coefficient: nn.Linear | nn.Parameter | None
        if self.kind == "learned":
            self.coefficient = nn.Parameter(torch.zeros(self.heads, **made))
        else:
            self.coefficient = None if self.kind == "constant" else nn.Linear(self.dim, self.heads, bias=bias, **made)
        self.key = nn.Linear(self.dim, gate, bias=bias, **made) if gates else None
        self.query = nn.Linear(self.dim, gate, bias=bias, **made) if gates else None
        self.value = nn.Linear(self.dim, self.dim, bias=False, **made)
        self.out = nn.Linear(self.dim, self.dim, bias=False, **made)

    def forward(
        self, x: Tensor, *, state: Any = None, return_state: bool = False, offsets: Any = None
    ) -> Tensor | tuple[Tensor, State]:
        """Return the layer's output for whole sequences.

        Parameters
        ----------
        x : tensor, shape (batch, n, dim)
        state : State, optional
            The State that an earlier call returned. Gradients pass through it, unless it is detached.
        return_state : bool, default False
            Whether to return the State after the last step as well.
        offsets : tensor or array_like of int, shape (N + 1,), optional
            Where sequences that lie one behind the other along n start, and where the last one ends. It excludes
            `state` and `return_state`. With a `group` these are the sequences of all ranks.

        Returns
        -------
        tensor, shape (batch, n, dim)
            The output. With `return_state` the result is a pair: the output and a `State`.

        Raises
        ------
        ShapeError, OptionError, DTypeError
            If something doesn't fit.
        """
        if x.ndim != 3 or x.shape[-1] != self.dim:
            required = f"must have shape (batch, n, {self.dim}), got {tuple(x.shape)}"
            raise ShapeError(required, "x", advice="call step for one step, (batch, dim)")
        keep = boolean(return_state, "return_state") or state is not None

        def solved(a: Tensor, u: Tensor) -> tuple[Tensor, Any]:
            options: dict[str, Any] = {"offsets": offsets, "dim": -3, "window": self.window}
            run = solve if self.ranks is None else partial(context_parallel.solve, group=self.ranks)
            if keep:
                states, end = run(a, u, state=state, return_state=True, **options)
                return states, end
            return run(a, u, **options), None

        if keep or offsets is not None or self.ranks is not None:
            y, end = self._mixed(x, partial(mixed, solved))
            return (y, end) if return_state else y
        whole: Tensor = self._mixed(x, lambda a, q, k, v: (mix(a, q, k, v, self.window), None))[0]
        return whole

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Compute the next step.

        Parameters
        ----------
        x_t : tensor, shape (batch, dim)
        state : State
            The State that `init_state`, ``forward(..., return_state=True)`` or the previous step returned. Its rows may
            be at different steps of a block.

        Returns
        -------
        y_t : tensor, shape (batch, dim)
            The output of this step.
        state : State
            The State after this step.

        Raises
        ------
        ShapeError, OptionTypeError, OptionError
            If something doesn't fit.
        """
        if x_t.ndim != 2 or x_t.shape[-1] != self.dim:
            required = f"must have shape (batch, {self.dim}), got {tuple(x_t.shape)}"
            raise ShapeError(required, "x_t", advice="call the layer itself for (batch, n, dim)")
        if not isinstance(state, State):
            raise OptionTypeError("must be a State", "state", given=state, advice="init_state returns the first one")
        shape = (len(x_t), self.heads, self.dim // self.heads)
        if state.window != self.window or tuple(state.shape) != shape:
            required = f"must be of {self.window} and shape {shape}"
            raise OptionError(required, "state", given=state, advice="take that of this layer and this batch")
        return self._mixed(x_t, partial(mixed, state.step))

    def init_state(self, batch: int) -> State:
        """Return the State before the first step.

        Parameters
        ----------
        batch : int
            Number of sequences.
        """
        weight = self.value.weight
        step = (positive_integer(batch, "batch"), 0, self.heads, self.dim // self.heads)
        nothing = weight.new_zeros(step, dtype=_wide(weight.dtype))
        state: State = solve(nothing, nothing, dim=-3, window=self.window, return_state=True)[1]
        return state

    def _mixed(self, x: Tensor, mixing: Any) -> tuple[Tensor, Any]:
        """Return the output for steps along any leading axes, and what `mixing` returns besides the results."""
        d = self.dim // self.heads
        v = self.value(x).unflatten(-1, (self.heads, d))
        q = None if self.query is None else self.query(x).unflatten(-1, (self.gate_groups, d))
        k = None if self.key is None else self.key(x).sigmoid().unflatten(-1, (self.gate_groups, d))
        y, end = mixing(self._coefficients(x), q, k, v)
        return self.out(y.flatten(-2).to(v.dtype)), end

    def _coefficients(self, x: Tensor) -> Tensor:
        """Return the coefficients, shape (..., heads) or (heads,)."""
        wide = _wide(self.value.weight.dtype)
        if self.coefficient is None:
            return torch.full((self.heads,), self.most, dtype=wide, device=x.device)
        logits = self.coefficient(x) if isinstance(self.coefficient, nn.Linear) else self.coefficient
        return self.most * (torch.tanh if self.kind == "tanh" else torch.sigmoid)(logits.to(wide))

    def extra_repr(self) -> str:
        """Return the options that the projections don't show, for the repr of the layer."""
        groups = "" if self.key is None else f", gate_groups={self.gate_groups}"
        most = "" if self.most == 1 else f", most={self.most}"
        return f"heads={self.heads}{groups}, window={self.window}, coefficient={self.kind!r}{most}"


OFFICIAL = {"proj_a": "coefficient", "proj_b": "key", "proj_c": "query", "proj_v": "value", "proj_out": "out"}


def phalanx_weights(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of the paper's own implementation under the names of `Phalanx`.

    Parameters
    ----------
    state_dict : mapping
        Weights of a layer with the projections ``proj_a``, ``proj_b``, ``proj_c``, ``proj_v`` and ``proj_out``, or of a
        model with such layers. Other weights keep their names.

    Returns
    -------
    dict
        The weights, for the ``load_state_dict`` of a layer with ``bias=True``.

    Raises
    ------
    OptionError
        (a ValueError) If there is no such projection.

    Notes
    -----
    The sliding window recurrences paper. That implementation has heads of 16 features.

    Examples
    --------
    >>> import torch, recfact as rf
    >>> list(rf.torch.phalanx_weights({"layers.0.proj_a.bias": torch.zeros(4)}))
    ['layers.0.coefficient.bias']
    """
    renamed = {_renamed(name): value for name, value in state_dict.items()}
    if renamed.keys() == state_dict.keys():
        required = f"must hold weights of {', '.join(OFFICIAL)}"
        raise OptionError(required, "state_dict", given=sorted(state_dict), advice="pass that of the paper's layer")
    return renamed


def _renamed(name: str) -> str:
    return ".".join(OFFICIAL.get(part, part) for part in name.split("."))


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return the number type of coefficients and states in a layer of a given number type."""
    return torch.promote_types(dtype, torch.float32)


def _finite(most: Any) -> float:
    if isinstance(most, bool) or not isinstance(most, int | float):
        raise OptionTypeError("must be a number", "most", given=most)
    if not 0 < most < inf:
        raise OptionError("must be a finite number above 0", "most", given=most)
    return float(most)
