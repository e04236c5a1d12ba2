"""The scripts in examples/: each runs, and what it found is held against an independent source."""

import re
import runpy
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import recfact as rf

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def run(capsys):
    """Run a script by its name; return its variables and the lines that it printed."""

    def run(name):
        variables = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
        return variables, capsys.readouterr().out.splitlines()

    return run


def plain_loop(a, u):
    """Return the states along the first axis, one step after another."""
    x = np.array(u)
    for i in range(1, len(x)):
        x[i] = a[i] * x[i - 1] + u[i]
    return x


def rounding(a, u):
    """Return a bound of the rounding error of the states: no term passes through more than 2 n + 8 roundings."""
    unit = (2 * len(u) + 8) * 2.0**-53
    return plain_loop(np.abs(a), np.abs(u)) * unit / (1 - 2 * unit)


def test_one_matrix(run):
    variables, lines = run("one_matrix")
    assert len(variables["differences"]) == 5
    assert all(not np.any(difference.to_dense()) for difference in variables["differences"].values())
    assert [line.split()[-1] for line in lines[:5]] == ["0"] * 5
    carrier = variables["blocks"].off_diagonal(2, 0).to_dense()
    assert carrier.tolist() == variables["L"].to_dense()[8:12, :4].tolist()


def test_window_with_proof(run):
    variables, lines = run("window_with_proof")
    choice = variables["choice"]
    assert variables["lost"] <= choice.error <= 2**-8
    assert lines[0].startswith(str(choice.window))
    assert variables["verified"].holds is True
    gates, inputs, block = variables["gates"], variables["inputs"], choice.window.block
    start = 3 * block  # a block of the jagged window sees itself and the one before it
    two_blocks = plain_loop(gates[start - block : start + block], inputs[start - block : start + block])
    near = 2 * rounding(gates[start - block : start + block], inputs[start - block : start + block])
    assert np.all(np.abs(variables["cut"][start : start + block] - two_blocks[block:]) <= near[block:])


def test_uneven_time_steps(run):
    variables, lines = run("uneven_time_steps")
    record = variables["record"]
    level, levels = record.value[0], []
    for days, value in zip(record.dt / 86400, record.value, strict=True):
        kept = np.exp(-days / 365.25)
        level = kept * level + (1 - kept) * value
        levels.append(f"{level:.1f}")
    dates = record.time.astype(str).tolist()
    printed = [line.split() for line in lines if line.endswith("ppm")]
    assert len(printed) == 5
    assert all(levels[dates.index(date)] == average for date, average, _ in printed)


def test_endless_stream(run):
    variables, lines = run("endless_stream")
    assert variables["alarms"][0] == 600  # the level jumps there
    assert lines[-1].endswith("True")
    readings = np.concatenate(variables["readings"])
    assert len(variables["streamed"]) == len(variables["readings"])
    a, u = np.full(len(readings), 0.95), (1 - np.float64(0.95)) * readings
    assert np.all(np.abs(variables["at_once"][:, 0] - plain_loop(a, u)) <= 2 * rounding(a, u))


def test_formats_and_horizons(run):
    _, lines = run("formats_and_horizons")
    halving, normal = (int(line.split()[-1]) for line in lines[-2:])
    rho = Fraction(127, 128)  # the largest number below 1 with 6 fraction bits
    assert rho**halving < Fraction(1, 2) <= rho ** (halving - 1)
    assert rho ** (normal + 1) < Fraction(1, 2**14) <= rho**normal


def test_gated_layer_gradient(run):
    _, lines = run("gated_layer_gradient")
    by_hand, by_complex_step = (line.split()[-1] for line in lines)
    assert by_hand == by_complex_step
    assert len(by_hand) > 10


@pytest.mark.torch
def test_torch_layer(run):
    _, lines = run("torch_layer")
    told = "gradients agree with finite differences", "second derivatives, too", "pieces have the loss of the whole"
    assert lines == [f"{what}: True" for what in told]


def torch_loop(a, u):
    """Return the states of tensors, by operations that torch differentiates."""
    import torch

    states = [u[0]]
    for coefficient, value in zip(a[1:], u[1:], strict=True):
        states.append(coefficient * states[-1] + value)
    return torch.stack(states)


def derivatives(solve, a, u, incoming):
    """Return first and second derivatives: of the states times `incoming`, and of the squares of the first ones."""
    import torch

    arguments = (a, u, incoming) if incoming.requires_grad else (a, u)
    first = torch.autograd.grad(solve(a, u), (a, u), incoming, create_graph=True)
    squares = sum((value * value.conj()).real.sum() for value in first)
    second = torch.autograd.grad(squares, arguments, create_graph=True)
    sums = sum(value.real.sum() for value in second)
    return [*first, *second, *torch.autograd.grad(sums, arguments, materialize_grads=True)]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("incoming", ["constant", "a variable", "of the states"])
def test_derivatives_of_the_torch_layer_are_those_of_the_loop(run, rng, dtype, incoming):
    import torch

    solve = run("torch_layer")[0]["solve"]
    kind = getattr(torch, dtype)
    a, u, weights = (torch.tensor(rng.integers(-2, 3, (4, 2))).to(kind) for _ in range(3))
    if kind.is_complex:
        a, u = a + 1j * a.roll(1), u - 1j * u.roll(1)
    a.requires_grad_(), u.requires_grad_()
    weights.requires_grad_(incoming == "a variable")
    if incoming == "of the states":
        found, expected = (derivatives(lambda a, u, f=f: f(a, u) ** 2, a, u, weights) for f in (solve, torch_loop))
    else:
        found, expected = (derivatives(f, a, u, weights) for f in (solve, torch_loop))
    for value, right in zip(found, expected, strict=True):  # integers, which neither way rounds
        assert torch.equal(value, right)
    ones = torch.ones_like(weights)
    assert torch.autograd.gradcheck(
        lambda a, u: torch.autograd.grad(solve(a, u), (a, u), ones, create_graph=True), (a, u)
    )
    assert torch.autograd.gradcheck(solve, (a, u))
    assert torch.autograd.gradgradcheck(solve, (a, u))
    assert torch.autograd.gradgradcheck(solve, (a, u), ones)


def test_jax_gradients(run):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    variables, lines = run("jax_gradients")
    assert len(lines) == 6
    rng = np.random.default_rng(1)
    solve, by_scan = variables["solve"], variables["by_scan"]
    a, u, g = (jax.numpy.asarray(rng.uniform(-1, 1, (3, 40)), "float32") for _ in range(3))
    both = {way: lambda a, u, way=way: (g[0] * way(a, u) ** 2).sum() for way in (solve, by_scan)}
    for kind in (
        lambda f: jax.jit(jax.grad(f, (0, 1))),
        lambda f: jax.jacrev(jax.grad(f, (0, 1)), (0, 1)),
        lambda f: jax.jit(jax.jacrev(jax.jacrev(jax.grad(f)))),
    ):
        found, expected = (kind(f)(a[0], u[0]) for f in both.values())
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), found, expected)
    mapped = jax.vmap(jax.grad(both[solve], (0, 1)), (0, None))(a, u[0])
    for row, (da, du) in enumerate(zip(*mapped, strict=True)):
        alone = jax.grad(both[by_scan], (0, 1))(a[row], u[0])
        np.testing.assert_allclose([da, du], alone, rtol=1e-4, atol=1e-4)
    back = jax.grad(lambda a, u: (g * solve(a, u, True)).sum(), (0, 1))(a, u)
    for found, expected in zip(back, rf.gradients.vjp(*map(np.asarray, (a, u, g)), reverse=True), strict=False):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_every_script_is_short_documented_and_tested(script):
    text = script.read_text()
    assert len(text.splitlines()) < 60
    assert f"examples/{script.name}" in (ROOT / "docs" / "examples.md").read_text()
    assert re.search(rf"^def test_{script.stem}\(run\)", Path(__file__).read_text(), flags=re.MULTILINE)
