"""Language models of attention and Phalanx layers in any order, at a size that one CPU core trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from recfact.torch import Phalanx

LAGS = 32
"""How many steps attention in a window sees: its own and those before it."""


class Model(nn.Module):
    """Blocks of a mixer and a gated MLP, with norms and residuals, between an embedding and its transpose.

    Parameters
    ----------
    letters : str
        One letter a block: A for attention, S for attention in a window with sinks, P for Phalanx.
    dim, heads, groups : int
        Features of a step, heads of every mixer, and groups of heads that share keys and values, or gates.
    vocabulary : int
        Number of tokens.
    options : mapping
        Further options of the Phalanx layers.
    """

    def __init__(
        self, letters: str, dim: int, heads: int, groups: int, vocabulary: int, options: Mapping[str, Any]
    ) -> None:
        super().__init__()
        made = {
            "A": lambda: Attention(dim, heads, groups),
            "S": lambda: Attention(dim, heads, groups, LAGS),
            "P": lambda: Phalanx(dim, heads=heads, gate_groups=groups, **options),
        }
        self.embedding = nn.Embedding(vocabulary, dim)
        self.blocks = nn.ModuleList(Block(made[letter](), dim) for letter in letters)
        self.norm = nn.RMSNorm(dim)
        nn.init.normal_(self.embedding.weight, std=0.02)
        for block in self.blocks:
            for last in (block.mixer.out, block.mlp.out):
                nn.init.normal_(last.weight, std=(last.in_features * 3 * 2 * len(letters)) ** -0.5)

    def forward(self, tokens: Tensor, shift: int = 0) -> Tensor:
        """Return the scores of the next token, shape (batch, n, vocabulary).

        Parameters
        ----------
        tokens : tensor of int64, shape (batch, n)
        shift : int
            How many steps the blocks of jagged windows start late.
        """
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, shift)
        return functional.linear(self.norm(x), self.embedding.weight)


class Block(nn.Module):
    """A mixer and a gated MLP."""

    def __init__(self, mixer: nn.Module, dim: int) -> None:
        super().__init__()
        self.before_mixer, self.mixer = nn.RMSNorm(dim), mixer
        self.before_mlp, self.mlp = nn.RMSNorm(dim), GatedMLP(dim)

    def forward(self, x: Tensor, shift: int) -> Tensor:
        """Return the sum of x and what the mixer and the MLP make of it."""
        y = self.before_mixer(x)
        if shift and isinstance(self.mixer, Phalanx):  # steps of zeros add nothing to the states
            y = self.mixer(functional.pad(y, (0, 0, shift, 0)))[:, shift:]
        else:
            y = self.mixer(y)
        x = x + y
        return x + self.mlp(self.before_mlp(x))


class GatedMLP(nn.Module):
    """SwiGLU (Shazeer 2020), with 8/3 features inside for each outside, in whole eights."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        inside = -(-dim // 3) * 8
        self.gate, self.value = nn.Linear(dim, inside, bias=False), nn.Linear(dim, inside, bias=False)
        self.out = nn.Linear(inside, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return a step's features from those of the same step."""
        return self.out(functional.silu(self.gate(x)) * self.value(x))


class Attention(nn.Module):
    """Causal attention with rotary positions (Su et al. 2021). Groups of heads share keys and values.

    With `lags`, a step sees that many steps, and each head has a sink: a learned score to which nothing belongs.
    """

    def __init__(self, dim: int, heads: int, groups: int, lags: int | None = None) -> None:
        super().__init__()
        self.heads, self.groups, self.lags = heads, groups, lags
        shared = dim // heads * groups
        self.query, self.out = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.key, self.value = nn.Linear(dim, shared, bias=False), nn.Linear(dim, shared, bias=False)
        self.sinks = None if lags is None else nn.Parameter(torch.zeros(heads))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for sequences, (batch, n, dim)."""
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (layer(x).unflatten(-1, (self.groups, -1)).transpose(1, 2) for layer in (self.key, self.value))
        k, v = (shared.repeat_interleave(self.heads // self.groups, 1) for shared in (rotated(k), v))
        if self.lags is None or self.sinks is None:
            y = functional.scaled_dot_product_attention(rotated(q), k, v, is_causal=True)
        else:
            y = in_window(rotated(q), k, v, self.lags, self.sinks)
        return self.out(y.transpose(1, 2).flatten(-2))


def rotated(x: Tensor) -> Tensor:
    """Turn pairs of features by angles that grow with the step, (..., n, d)."""
    n, d = x.shape[-2:]
    speeds = 10000.0 ** -(torch.arange(0, d, 2, device=x.device) / d)
    angles = torch.arange(n, device=x.device)[:, None] * speeds
    first, second = x.chunk(2, -1)
    return torch.cat(
        [first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()], -1
    ).to(x.dtype)


def in_window(q: Tensor, k: Tensor, v: Tensor, lags: int, sinks: Tensor) -> Tensor:
    """Attend to the last `lags` steps, in blocks of as many that see themselves and the block before.

    Parameters
    ----------
    q, k, v : tensor, shape (batch, heads, n, d)
    sinks : tensor, shape (heads,)
    """
    n, d = q.shape[-2:]
    q, k, v = (functional.pad(x, (0, 0, 0, -n % lags)).unflatten(-2, (-1, lags)) for x in (q, k, v))
    k, v = (torch.cat([functional.pad(x, (0, 0, 0, 0, 1, -1)), x], -2) for x in (k, v))
    place = torch.arange(lags, device=q.device)
    lag = lags + place[:, None] - torch.cat([place, lags + place])
    seen = ((lag >= 0) & (lag < lags)).expand(q.shape[-3], -1, -1).clone()
    seen[0, :, :lags] = False  # there is no block before the first
    scores = (q @ k.mT * d**-0.5).masked_fill(~seen, -torch.inf)
    column = sinks[:, None, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
    return (weights @ v).flatten(-3, -2)[..., :n, :]
