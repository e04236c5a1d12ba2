"""The figure of the Phalanx layer and of hybrids, with shapes read from the layer: ``python -m tools.layer_figure``."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import recfact as rf
from recfact.windows import blocks_and_terms

FIGURE = Path("docs/_static/layer.svg")
DIM, STEPS = 2048, 8192
CACHES = {"A": 2 * STEPS * 8 * 128, "S": 2 * 128 * 8 * 128}
"""Numbers that layers of attention keep for a sequence, with 8 heads of 128 features for keys and values."""

HYBRIDS = {"1:1": "PAPAPAPA", "3:1": "PPPAPPPA", "multihybrid": "PSPAPSPA"}
KINDS = {"P": ("Phalanx", "#f2b880"), "S": ("attention in a window", "#b9d3e8"), "A": ("attention", "#7fa3c0")}


def box(x: float, y: float, width: float, height: float, lines: list[str], fill: str = "#ffffff") -> str:
    """Return a rectangle with lines of text in its middle."""
    middle, first = x + width / 2, y + height / 2 - 8 * (len(lines) - 1) + 4
    texts = [
        f'<text x="{middle:g}" y="{first + 16 * i:g}" text-anchor="middle">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]
    rectangle = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" fill="{fill}" stroke="#444444"/>'
    )
    return "\n".join([rectangle, *texts])


def arrow(*points: tuple[float, float]) -> str:
    """Return a line through points with a head at its end."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="#444444" marker-end="url(#head)"/>'


def text(x: float, y: float, line: str, anchor: str = "middle") -> str:
    """Return one line of text."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(line)}</text>'


def sizes(shape: Any) -> str:
    """Return the shape of a tensor, with the axes of sequences and steps by name."""
    return f"(batch, n, {', '.join(map(str, shape[2:]))})"


def layer_parts(layer: Any) -> list[str]:
    """Return the drawing of a layer, with shapes of tensors on torch's device that holds no numbers."""
    import torch

    shapes: dict[str, Any] = {}
    names = {"a": "coefficient", "k": "key", "v": "value", "q": "query", "o": "out"}
    for letter, name in names.items():
        getattr(layer, name).register_forward_hook(lambda *call, letter=letter: shapes.update({letter: call[2].shape}))
    x = torch.empty(1, 64, layer.dim, device="meta")
    layer(x)
    groups, heads = ((count, layer.dim // layer.heads) for count in (layer.gate_groups, layer.heads))
    whole = {"a": shapes["a"], "k": (1, 64, *groups), "q": (1, 64, *groups), "v": (1, 64, *heads)}
    formulas = {"a": "a = σ(X Wa)", "k": "k = σ(X Wk)", "v": "v = X Wv", "q": "q = X Wq"}
    parts = [box(20, 16, 500, 26, [f"X {sizes(x.shape)}"])]
    for place, letter in enumerate("akvq"):
        middle = 80 + 127 * place
        weight = getattr(layer, names[letter]).weight
        parts += [
            arrow((middle, 42), (middle, 68)),
            box(middle - 60, 70, 120, 40, [f"W{letter}", " × ".join(map(str, weight.shape))], "#eeeeee"),
            arrow((middle, 110), (middle, 138)),
            box(middle - 60, 140, 120, 40, [formulas[letter], sizes(whole[letter])]),
        ]
    return [
        *parts,
        arrow((207, 180), (207, 204), (240, 204), (240, 218)),
        arrow((334, 180), (334, 204), (300, 204), (300, 218)),
        box(210, 220, 120, 40, ["u = k v", sizes(whole["v"])]),
        arrow((80, 180), (80, 298)),
        arrow((270, 260), (270, 298)),
        box(20, 300, 310, 40, ["x = solve(a, u), along n", str(layer.window)], KINDS["P"][1]),
        arrow((270, 340), (270, 378)),
        arrow((362, 180), (362, 378)),
        arrow((461, 180), (461, 378)),
        box(210, 380, 311, 40, ["y = q x + v", sizes(whole["v"])]),
        arrow((365, 420), (365, 438)),
        box(210, 440, 311, 40, [f"Wo {' × '.join(map(str, layer.out.weight.shape))}", sizes(shapes["o"])], "#eeeeee"),
        text(20, 400, f"{layer.heads} heads of {heads[1]} features,", "start"),
        text(20, 416, f"gates shared by {layer.heads // layer.gate_groups} of them;", "start"),
        text(20, 432, f"{sum(one.numel() for one in layer.parameters()):,} weights".replace(",", " "), "start"),
    ]


def hybrid_parts(held: int) -> list[str]:
    """Return the drawing of hybrids, whose layers of recurrences hold so many numbers for a sequence."""
    parts = [text(712, 28, "hybrids: eight layers from below")]
    for place, (name, pattern) in enumerate(HYBRIDS.items()):
        left = 570 + 100 * place
        for level, kind in enumerate(pattern):
            parts.append(box(left, 292 - 36 * level, 84, 30, [KINDS[kind][0].split(" ")[0]], KINDS[kind][1]))
        numbers = sum(CACHES.get(kind, held) for kind in pattern)
        parts += [text(left + 42, 344, name), text(left + 42, 362, f"{numbers / 1e6:.1f} M")]
    parts.append(text(712, 386, f"numbers kept to decode after {STEPS} steps"))
    parts.append(text(712, 402, f"(attention alone: {8 * CACHES['A'] / 1e6:.1f} M)"))
    for place, (name, fill) in enumerate(KINDS.values()):
        parts += [box(600, 420 + 22 * place, 16, 14, [], fill), text(624, 432 + 22 * place, name, "start")]
    return parts


def figure() -> str:
    """Return the drawing."""
    layer = rf.torch.Phalanx(DIM, device="meta")
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 496" font-family="sans-serif" font-size="12">',
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
            '<path d="M0,1 L7,4 L0,7 z" fill="#444444"/></marker>',
            '<rect width="880" height="496" fill="#ffffff"/>',
            *layer_parts(layer),
            *hybrid_parts((blocks_and_terms(layer.window)[1] + 1) * DIM),
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
