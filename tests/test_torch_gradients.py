"""`recfact.torch.solve`: derivatives of any order, in every mode of torch."""

from shutil import which

import numpy as np
import pytest

import recfact as rf
from recfact.errors import ArrayTypeError, DTypeError, OptionError, OptionTypeError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),  # by torch's own use
]

WINDOWS = [rf.Full(), rf.Jagged(4), rf.Jagged(4, 0), rf.Jagged(3, 2), rf.Uniform(3), rf.Jagged(1, 2), rf.Uniform(1)]


def operands(dtype=torch.float64, n=7, **options):
    """Return coefficients shared by the sequences of a batch, inputs and initial states that require gradients."""
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 1, n), (2, 3, n), (3,)
    return [torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True, **options) for shape in shapes]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_first_derivatives(dtype, window, reverse):
    a, u, x0 = operands(dtype)

    def solve(a, u, x0=None):
        return rf.torch.solve(a, u, x0=x0, window=window, reverse=reverse)

    given = (a, u) if reverse else (a, u, x0)
    assert torch.autograd.gradcheck(solve, given, check_forward_ad=True, check_batched_grad=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_second_derivatives(window, reverse):
    a, u, x0 = operands(n=6)
    a, u = a[:1].detach().requires_grad_(), u[:1, :2].detach().requires_grad_()

    def solve(a, u, x0=None):
        return rf.torch.solve(a, u, x0=x0, window=window, reverse=reverse)

    given = (a, u) if reverse else (a, u, x0[:2].detach().requires_grad_())
    assert torch.autograd.gradgradcheck(solve, given, check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_transforms_of_functions(window, reverse):
    """Hessians forward over reverse, and reverse over forward, are those of reverse over reverse."""
    a, u, _ = (tensor.detach()[0] if tensor.ndim == 3 else tensor for tensor in operands(n=6))
    offsets = [0, 2, 2, 6]

    def loss(a, u):
        return rf.torch.solve(a, u, window=window, reverse=reverse, offsets=offsets).sin().sum()

    expected = torch.autograd.functional.hessian(loss, (a, u[:2]))
    for found in (
        torch.func.hessian(loss, (0, 1))(a, u[:2]),
        torch.func.jacrev(torch.func.jacfwd(loss, (0, 1)), (0, 1))(a, u[:2]),
    ):
        for row, other in zip(found, expected, strict=True):
            for one, another in zip(row, other, strict=True):
                torch.testing.assert_close(one, another)
    each = torch.func.vmap(torch.func.grad(loss, (0, 1)), (None, 0))(a[0], u)
    for row in range(3):
        for one, another in zip(each, torch.func.grad(loss, (0, 1))(a[0], u[row]), strict=True):
            torch.testing.assert_close(one[row], another)
    _, moved = torch.func.jvp(loss, (a, u), (a, u))
    by_a, by_u = torch.func.grad(loss, (0, 1))(a, u)
    torch.testing.assert_close(moved, (by_a * a).sum() + (by_u * u).sum())


def test_forward_mode_of_forward_mode_is_refused():
    """Torch drops the outer tangents of what the inner ones are made of, and would return zeros."""
    a, u = torch.full((4,), 0.5, dtype=torch.float64), torch.ones(4, dtype=torch.float64)

    def loss(a):
        return rf.torch.solve(a, u).sum()

    twice = torch.func.jacfwd(torch.func.jacfwd(loss))
    with pytest.raises(OptionError, match=r"take one of the two in reverse mode, as torch\.func\.hessian"):
        twice(a)
    with pytest.raises(OptionError, match="forward mode of forward mode"):
        torch.func.jvp(lambda a: torch.func.jvp(loss, (a,), (u,))[1], (a,), (u,))
    torch.testing.assert_close(torch.func.jacfwd(torch.func.jacrev(loss))(a)[1:, 1:].sum(), torch.tensor(7.0).double())


@pytest.mark.parametrize("offsets", [None, [0, 3, 7]])
def test_the_axis_of_vmap_meets_no_other(offsets):
    """Whatever axes the operands lack, the calls are those of one after another."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"a": (7,), "u": (2, 7), "x0": () if offsets is None else (2,)}

    def solve(a, u, x0):
        return rf.torch.solve(a, u, x0=x0, offsets=offsets, window="jagged:3")

    for mapped in ("a", "u", "x0", "au", "ax0", "aux0"):
        dims = [-1 if name in mapped else None for name in shapes]
        given = [
            torch.randn((*shape, *(2,) * (at is not None)), dtype=torch.float64, generator=generator)
            for shape, at in zip(shapes.values(), dims, strict=True)
        ]
        for call in (solve, torch.func.grad(lambda *own: (solve(*own) ** 2).sum())):
            found = torch.func.vmap(call, in_dims=tuple(dims))(*given)
            for row in range(2):
                own = [one if at is None else one[..., row] for one, at in zip(given, dims, strict=True)]
                torch.testing.assert_close(found[row], call(*own))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_state_passes_gradients_on(window):
    """Pieces have the states, the State and the gradients of the whole, and of recfact's own."""
    a, u, x0 = operands(n=9)
    whole = rf.torch.solve(a, u, x0=x0, window=window)
    expected = torch.autograd.grad((whole**2).sum(), (a, u, x0))
    for cut in (0, 1, 3, 4, 8, 9):
        x, state = rf.torch.solve(a[..., :cut], u[..., :cut], x0=x0, window=window, return_state=True)
        rest, end = rf.torch.solve(a[..., cut:], u[..., cut:], state=state, window=window, return_state=True)
        torch.testing.assert_close(torch.cat([x, rest], -1), whole)
        found = torch.autograd.grad((x**2).sum() + (rest**2).sum(), (a, u, x0), retain_graph=True)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
        plain = rf.solve(a.detach(), u.detach(), x0=x0.detach(), window=window, return_state=True)[1]
        torch.testing.assert_close(end.parts.detach(), torch.tensor(plain.parts))
        assert end.phase == plain.phase
        assert not end.detach().parts.requires_grad
        again, _ = rf.torch.solve(a[..., cut:], u[..., cut:], state=state.to_numpy(), window=window, return_state=True)
        torch.testing.assert_close(again, rest)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_steps_one_by_one_and_rows_at_different_steps(window):
    a, u, x0 = operands(n=9)
    whole = rf.torch.solve(a, u, x0=x0, window=window)
    states = [
        rf.torch.solve(a[..., :taken], u[..., :taken], x0=x0, window=window, return_state=True)[1]
        for taken in (0, 1, 4, 5)
    ]
    state = states[0]
    for i in range(9):
        x, state = state.step(a[..., i], u[..., i])
        torch.testing.assert_close(x, whole[..., i])
    rows = rf.torch.State.stack(states)
    more_a, more_u = a.expand(4, *a.shape), u.expand(4, *u.shape)
    x, end = rf.torch.solve(more_a, more_u, state=rows, window=window, return_state=True)
    for i in range(9):
        own, rows = rows.step(more_a[..., i], more_u[..., i])
        torch.testing.assert_close(own, x[..., i])
    torch.testing.assert_close(rows.parts, end.parts)
    for row, state in enumerate(states):
        torch.testing.assert_close(x[row], rf.torch.solve(a, u, state=state, window=window))
    assert end[0].shape == (2, 3)


@pytest.mark.parametrize("dim", [-1, 1])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_state_of_segments_passes_gradients_on(window, dim):
    """Each segment of two packed calls has the states and the gradients of its sequence alone."""
    lengths, cuts = (0, 3, 7, 1), (0, 2, 3, 0)
    rng = np.random.default_rng(0)
    sequences = [[torch.tensor(rng.uniform(-1, 1, (2, n, 3)), requires_grad=True) for _ in "au"] for n in lengths]
    x0 = torch.tensor(rng.uniform(-1, 1, (2, 4, 3)), requires_grad=True)
    alone = [rf.torch.solve(a, u, x0=x0[:, row], dim=1, window=window) for row, (a, u) in enumerate(sequences)]
    found, state = [], None
    for piece in (0, 1):
        parts = [
            [one[:, :cut] if piece == 0 else one[:, cut:] for one in pair]
            for pair, cut in zip(sequences, cuts, strict=True)
        ]
        offsets = np.cumsum([0, *(u.shape[1] for _, u in parts)])
        a, u = (torch.cat(each, 1).movedim(1, dim) for each in zip(*parts, strict=True))
        entering = {"x0": x0.movedim(1, dim)} if piece == 0 else {"state": state}
        x, state = rf.torch.solve(a, u, **entering, offsets=offsets, dim=dim, window=window, return_state=True)
        assert state.shape == x0.movedim(1, dim).shape
        found.append(x.movedim(dim, 1).split(np.diff(offsets).tolist(), 1))
    whole = [torch.cat(pieces, 1) for pieces in zip(*found, strict=True)]
    inputs = [x0, *(one for pair in sequences for one in pair)]
    for one, other in zip(whole, alone, strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(
        state.last.movedim(dim, 1), torch.stack([x[:, -1] if x.shape[1] else x0[:, 0] for x in alone], 1)
    )
    for one, other in zip(
        *(torch.autograd.grad(torch.cat(xs, 1).sin().sum(), inputs) for xs in (whole, alone)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("window", [rf.Full(), rf.Jagged(4), rf.Uniform(3)], ids=str)
@pytest.mark.parametrize("offsets", [None, [0, 2, 2, 7]])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.filterwarnings("ignore")  # of torch's own making
def test_compiled_code_has_the_gradients(window, offsets, backend):
    if backend == "inductor" and which("g++") is None:
        pytest.skip("the inductor needs g++")
    a, u, x0 = operands()
    if offsets is not None:
        x0 = x0[:, None].expand(3, 3).detach().requires_grad_()

    def loss(a, u, x0):
        return rf.torch.solve(a, u, x0=x0, window=window, offsets=offsets).sin().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    for one, other in zip(
        torch.autograd.grad(compiled(a, u, x0), (a, u, x0)),
        torch.autograd.grad(loss(a, u, x0), (a, u, x0)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore")  # of torch's own making
def test_what_is_known_where_code_is_compiled_and_what_is_not():
    u, offsets = torch.ones(4), torch.tensor([0, 2, 4])
    half = torch.compile(lambda u: rf.torch.solve(0.5, u, offsets=offsets), backend="eager", fullgraph=True)
    assert half(u).tolist() == [1, 1.5, 1, 1.5]
    torch._dynamo.reset()
    options = {"offsets": offsets, "return_state": True}
    with pytest.raises(Exception, match="go with a State in code that is compiled"):
        torch.compile(lambda u: rf.torch.solve(u, u, **options), backend="eager", fullgraph=True)(u)


def test_numbers_are_of_the_tensors_type():
    for number, dtype, expected in (
        (0.5, torch.bfloat16, torch.bfloat16),
        (0.5, torch.int32, torch.float64),
        (0.5j, torch.float32, torch.complex64),
        (0.5j, torch.float64, torch.complex128),
        (1, torch.complex64, torch.complex64),
    ):
        assert rf.torch.solve(number, torch.ones(3).to(dtype)).dtype == expected


def test_the_custom_operator_keeps_torchs_rules():
    a, u, x0 = operands()
    rf.torch.solve(a, u)
    for given in ((a, u, x0, None, -1, False, "jagged:4"), (a, u, None, None, -1, True, "full")):
        assert set(torch.library.opcheck(torch.ops.recfact.solve, given).values()) == {"SUCCESS"}
        x = torch.ops.recfact.solve(*given).detach()
        numbers = [one if one is None else one.detach() for one in given[:3]]
        back = (*numbers, x, None, torch.ones_like(x), *given[3:])
        assert set(torch.library.opcheck(torch.ops.recfact.solve_gradients, back).values()) == {"SUCCESS"}


def test_number_types_of_gradients_are_those_of_what_they_belong_to():
    gates = torch.rand(2, 40, 1, requires_grad=True)
    inputs = torch.randn(2, 40, 8).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = rf.torch.solve(gates, inputs, dim=1, window="jagged:4")
    assert x.dtype == torch.float32
    x.sum().backward()
    assert (gates.grad.dtype, inputs.grad.dtype) == (torch.float32, torch.bfloat16)
    real, complex_ = torch.rand(6, requires_grad=True), torch.randn(6, dtype=torch.complex64, requires_grad=True)
    rf.torch.solve(real, complex_).abs().sum().backward()
    assert (real.grad.dtype, complex_.grad.dtype) == (torch.float32, torch.complex64)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_short_sequences(n):
    for window in WINDOWS:
        a, u, x0 = operands(n=n)
        rf.torch.solve(a, u, x0=x0, window=window).sum().backward()
        assert (a.grad.shape, u.grad.shape, x0.grad.shape) == ((2, 1, n), (2, 3, n), (3,))
        if n == 1:
            assert torch.equal(u.grad, torch.ones_like(u))


def test_any_strides():
    a, u, _ = operands(n=12)
    for window in WINDOWS:
        turned = rf.torch.solve(a.flip(0).transpose(0, 2), u.flip(0).transpose(0, 2), dim=0, window=window)
        plain = rf.torch.solve(a, u, window=window).flip(0).transpose(0, 2)
        torch.testing.assert_close(turned, plain)
        for one, other in zip(
            torch.autograd.grad((turned**2).sum(), (a, u)), torch.autograd.grad((plain**2).sum(), (a, u)), strict=True
        ):
            torch.testing.assert_close(one, other)


def test_gradients_of_inputs_alone_take_one_solve():
    a, u, x0 = operands()
    for window in WINDOWS:
        expected = torch.autograd.grad((rf.torch.solve(a, u, x0=x0, window=window) ** 2).sum(), (u, x0))
        alone = torch.autograd.grad((rf.torch.solve(a.detach(), u, x0=x0, window=window) ** 2).sum(), (u, x0))
        for one, other in zip(alone, expected, strict=True):
            torch.testing.assert_close(one, other)


def test_recfacts_own_solve_names_this_one_where_gradients_are_recorded():
    u = torch.ones(3, requires_grad=True)
    with pytest.raises(ArrayTypeError, match=r"recfact\.torch\.solve in place"):
        rf.solve(0.5, u)
    with torch.no_grad():
        assert rf.solve(0.5, u).tolist() == [1, 1.5, 1.75]


def test_what_does_not_fit_is_refused():
    u = torch.ones(4)
    _, state = rf.torch.solve(0.5, u, return_state=True)
    for given, error, message in (
        (lambda: rf.torch.solve(0.5, 1.0), ArrayTypeError, "a or u must be a torch tensor"),
        (lambda: rf.torch.solve(np.ones(4), u), ArrayTypeError, "a must be a torch tensor or a number"),
        (lambda: rf.torch.solve(0.5, u.sum()), ShapeError, "at least one axis"),
        (lambda: rf.torch.solve(0.5, u, dim=1), ShapeError, "dim must be an axis"),
        (lambda: rf.torch.solve(0.5, u, state=3), OptionTypeError, "state must be a State"),
        (lambda: rf.solve(0.5, u, state=state), OptionTypeError, "; recfact.torch.solve goes on from it"),
        (lambda: rf.torch.solve(0.5, u, state=state, window="jagged:2"), OptionError, "state must be of the window"),
        (lambda: rf.torch.solve(0.5, u.double(), state=state), DTypeError, "state must have the number type"),
        (lambda: rf.torch.solve(0.5, u, return_state=True, reverse=True), OptionError, "reverse doesn't go with state"),
        (lambda: rf.torch.State.stack([]), ShapeError, "states must be at least one State"),
        (lambda: rf.torch.State.stack([state, u]), OptionTypeError, "states must be a State"),
        (lambda: rf.torch.State.stack(3), OptionTypeError, "states must be a list of States"),
    ):
        with pytest.raises(error, match=message):
            given()
    with pytest.raises(ShapeError, match="state must have the shape of one step"):
        rf.torch.solve(0.5, torch.ones(2, 4), state=state)
