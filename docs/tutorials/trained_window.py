"""Train a small language model, cut its windows with proof, and decode. trained_window.md beside this explains it."""

import argparse
import inspect
import math
import optparse

import numpy as np
import torch
from torch.nn.functional import cross_entropy, layer_norm

import recfact as rf

# -- Train
torch.manual_seed(0)
torch.set_num_threads(1)
text, other = (torch.tensor(list(inspect.getsource(module).encode())) for module in (argparse, optparse))
unseen = other[: len(other) // 257 * 257].view(-1, 257)

embedding, scores = torch.nn.Embedding(256, 64), torch.nn.Linear(64, 256)
layers = torch.nn.ModuleList(rf.torch.Phalanx(64, window="full") for _ in range(2))


def forward(tokens, mix=lambda layer, x: layer(x)):
    """Return the scores of the byte after each one."""
    x = embedding(tokens)
    for layer in layers:
        x = x + mix(layer, layer_norm(x, (64,)))
    return scores(x)


def bits(tokens):
    """Return the loss in bits a byte."""
    return cross_entropy(forward(tokens[:, :-1]).mT, tokens[:, 1:]) / math.log(2)


optimiser = torch.optim.AdamW([*embedding.parameters(), *layers.parameters(), *scores.parameters()], lr=1e-2)
for _ in range(100):
    optimiser.zero_grad()
    bits(text[torch.randint(len(text) - 257, (8, 1)) + torch.arange(257)]).backward()
    optimiser.step()
torch.set_grad_enabled(False)
print(f"whole recurrence: {bits(unseen):.4f} bits a byte")

# -- Look
gates = []


def looking(layer, x):
    """Keep the coefficients that a layer computes."""
    gates.append(layer.coefficient(x).sigmoid())
    return layer(x)


forward(unseen[:, :-1], looking)
a = torch.stack(gates).numpy()  # layers, sequences, steps, heads
half, most, largest = np.quantile(a, (0.5, 0.95, 1))
print(f"half of the coefficients are below {half:.3f}, 95 % below {most:.3f}, the largest is {largest:.3f}")

# -- Choose
choice = rf.precision.choose_window(a, format="bfloat16", axis=2)
print(choice)

# -- Cut
for window in (rf.Jagged(2, 0), rf.Jagged(2), rf.Jagged(4), choice.fastest.window):
    for layer in layers:
        layer.window = window
    print(f"{window}: {bits(unseen):.4f} bits a byte")

# -- Decode
states = {layer: layer.init_state(1) for layer in layers}


def step(layer, x):
    """Compute a layer's next step."""
    y, states[layer] = layer.step(x, states[layer])
    return y


decoded = torch.cat([forward(token, step) for token in unseen[0, :-1].split(1)])
apart = (decoded - forward(unseen[:1, :-1])[0]).abs().max()
numbers = sum(state.parts.numel() for state in states.values())
print(f"decoded step by step, from {numbers} numbers: scores differ by up to {apart:.0e}")
