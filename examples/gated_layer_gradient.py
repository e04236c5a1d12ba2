"""The backward pass of a gated layer is the same recurrence, run from the end.

A gated unit computes h_i = f_i h_{i-1} + (1 - f_i) v_i. With the transfer operator L of the gates, h = L ((1 - f) v).
So a gradient goes back through the transpose: L^T g is ``solve(f, g, reverse=True)``. The script compares the
derivative along a random direction with a complex step, which subtracts nothing and is exact to rounding.
"""

import numpy as np

import recfact as rf

rng = np.random.default_rng(3)
steps, channels = 500, 8
x = rng.standard_normal((steps, channels))
W, V = rng.standard_normal((2, channels, channels)) / np.sqrt(channels)


def forward(W, V):
    """Return gates, values and states, each of shape (steps, channels)."""
    gates, values = 1 / (1 + np.exp(-x @ W)), x @ V
    return gates, values, rf.solve(gates, (1 - gates) * values, axis=0)


def loss(W, V):
    """Return half the sum of the squared states, without a conjugate."""
    return (forward(W, V)[2] ** 2).sum() / 2


gates, values, states = forward(W, V)
back = rf.solve(gates, states, axis=0, reverse=True)  # what reaches the inputs of the recurrence
before = np.concatenate([np.zeros((1, channels)), states[:-1]])
grad_v = x.T @ (back * (1 - gates))
grad_w = x.T @ (back * (before - values) * gates * (1 - gates))

dw, dv = rng.standard_normal((2, channels, channels))
along = np.sum(grad_w * dw) + np.sum(grad_v * dv)
by_complex_step = (loss(W + 1e-30j * dw, V + 1e-30j * dv)).imag / 1e-30
print(f"derivative along a direction: {along:.10g}")
print(f"by a complex step:            {by_complex_step:.10g}")
