"""The recurrence as a differentiable function of JAX, and the lengths for which leaving JAX is worth it.

Needs JAX: pip install --editable '.[jax]'. The gradients call the same function, so they have gradients too.
"""

from functools import partial
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np

import recfact as rf


def on_host(a, u, reverse):
    """Solve arrays of JAX."""
    return np.asarray(rf.solve(np.asarray(a), np.asarray(u), reverse=reverse))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def solve(a, u, reverse=False):
    """Return the states of sequences, time last; `a` and `u` have one shape."""
    shape = jax.ShapeDtypeStruct(u.shape, u.dtype)
    return jax.pure_callback(partial(on_host, reverse=reverse), shape, a, u, vmap_method="broadcast_all")


def forward(a, u, reverse):
    """Return the states, and what the gradients need."""
    x = solve(a, u, reverse)
    return x, (a, x)


def backward(reverse, kept, g):
    """Return the gradients of coefficients and inputs."""
    a, x = kept
    du = solve(a, g, not reverse)
    before, behind = (du, x) if reverse else (x, du)
    return jnp.zeros_like(a).at[..., 1:].set(before[..., :-1] * behind[..., 1:]), du


solve.defvjp(forward, backward)


def by_scan(a, u):
    """Return the same states by the scan that JAX has."""
    return jax.lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, u))[1]


for n in (100, 10_000, 1_000_000):
    a, u = jax.random.uniform(jax.random.key(0), (2, n))
    for way in (solve, by_scan):
        gradients = jax.jit(jax.grad(lambda a, u, way=way: (way(a, u) ** 2).sum(), (0, 1)))
        jax.block_until_ready(gradients(a, u))
        start = perf_counter()
        for _ in range(10):
            jax.block_until_ready(gradients(a, u))
        print(f"{n:8} steps, gradients by {way.__name__:8} {100 * (perf_counter() - start):8.3f} ms")
