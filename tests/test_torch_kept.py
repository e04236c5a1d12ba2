"""States that a solve on a GPU keeps for its gradients, as torch sees them. The GPU here is a few functions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import recfact as rf

torch = pytest.importorskip("torch")
operators = pytest.importorskip("recfact.torch.operators")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # of torch's own making

PART = 16


@pytest.fixture
def keeps(monkeypatch):
    """Keep states of halves on the CPU, and record what gradients are given."""
    given = []

    def solve_and_keep(a, u, x0, offsets, dim):
        x = operators._solve(a, u, x0, offsets, dim, False, rf.Full())
        own = None if x0 is None else x0.detach()
        wide = rf.solve(a.detach().float(), u.detach().float(), x0=own, axis=dim, offsets=offsets)
        time = dim % x.ndim
        kept = wide.narrow(time, 0, wide.shape[time] // PART * PART).unflatten(time, (-1, PART)).select(time + 1, -1)
        return x, kept.movedim(time, 0).contiguous().movedim(0, time)

    def pulled_back(*others):
        given.append(others[-1])
        return products(*others)

    products = operators.pulled_back
    monkeypatch.setattr(operators, "_solve_and_keep", solve_and_keep)
    monkeypatch.setattr(operators, "pulled_back", pulled_back)
    monkeypatch.setattr(operators, "_keeps", lambda a, u, *_: u.dtype in operators.HALVES)
    return given


def operands(dtype=torch.bfloat16, a_dtype=None):
    torch.manual_seed(0)
    a = torch.rand(2, 70, 1).to(a_dtype or dtype).requires_grad_()
    return a, torch.randn(2, 70, 8).to(dtype).requires_grad_()


def gradients(a, u, **options):
    return torch.autograd.grad(rf.torch.solve(a, u, dim=1, **options).float().square().sum(), (a, u))


@pytest.mark.parametrize("a_dtype", [torch.bfloat16, torch.float32])
def test_they_take_the_place_of_all_states(keeps, a_dtype):
    a, u = operands(a_dtype=a_dtype)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: saved.append(one) or one, lambda one: one):
        x = rf.torch.solve(a, u, dim=1)
    others = [one for one in saved if one is not a and one is not u]
    assert [(one.dtype, one.shape) for one in others] == [(torch.float32, (2, 4, 8))]
    assert x.grad_fn is not None
    with torch.no_grad():
        torch.testing.assert_close(others[0].to(x.dtype), x[:, 15::16], rtol=0, atol=0)
    x.sum().backward()
    (kept,) = keeps
    assert kept.data_ptr() == others[0].data_ptr()


def test_gradients_are_the_same(keeps, monkeypatch):
    a, u = operands()
    found = gradients(a, u)
    assert keeps[-1] is not None
    for options in ({"reverse": True}, {"window": "jagged:8"}):  # which gradients take otherwise
        gradients(a, u, **options)
        assert keeps[-1] is None
    monkeypatch.setattr(operators, "_keeps", lambda *_: False)
    for one, other in zip(found, gradients(a, u), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert keeps[-1] is None


def test_second_derivatives(keeps):
    a, u = operands()

    def slopes():
        x = rf.torch.solve(a, u, dim=1)
        da, du = torch.autograd.grad(x.float().square().sum(), (a, u), create_graph=True)
        return torch.autograd.grad(da.float().sum() + du.float().square().sum(), (a, u))

    found, wide = slopes(), [one.detach().double().requires_grad_() for one in (a, u)]
    da, du = torch.autograd.grad(rf.torch.solve(*wide, dim=1).square().sum(), wide, create_graph=True)
    exact = torch.autograd.grad(da.sum() + du.square().sum(), wide)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0.1, atol=0.1 * other.abs().max().item())


def test_transforms_of_functions(keeps):
    a, u = (one.detach() for one in operands())

    def loss(a, u):
        return rf.torch.solve(a, u, dim=0).float().square().sum()

    each = [torch.func.grad(loss, argnums=(0, 1))(a[k], u[k]) for k in range(2)]
    together = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))(a, u)
    for one, other in zip(together, map(torch.stack, zip(*each, strict=True)), strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)
    moved = torch.func.jvp(lambda u: rf.torch.solve(a, u, dim=1), (u,), (u,))[1]
    torch.testing.assert_close(moved, rf.torch.solve(a, u, dim=1))
    batched = torch.autograd.grad(
        rf.torch.solve(a, u.requires_grad_(), dim=1), u, torch.stack([u, u]), is_grads_batched=True
    )
    torch.testing.assert_close(batched[0][0], batched[0][1])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("offsets", [None, [0, 16, 70]])
@pytest.mark.parametrize("initial", [False, True])
def test_compiled_code_keeps_them(keeps, dynamic, offsets, initial):
    offsets = None if offsets is None else torch.tensor(offsets)
    given = operands()
    if initial:
        step = (2, 8) if offsets is None else (2, 2, 8)
        given = *given, torch.randn(step).requires_grad_()
    torch._dynamo.reset()

    def solved(a, u, x0=None):
        return rf.torch.solve(a, u, x0=x0, dim=1, offsets=offsets)

    compiled = torch.compile(solved, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    found = torch.autograd.grad(compiled(*given).float().square().sum(), given)
    assert keeps[-1].shape == (2, 4, 8)
    keeps.clear()
    again = torch.autograd.grad(solved(*given).float().square().sum(), given)
    assert keeps[-1].shape == (2, 4, 8)
    for one, other in zip(found, again, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    torch._dynamo.reset()


def test_the_operator_is_as_torch_wants_it(keeps):
    a, u = operands()
    for offsets, x0 in ((None, None), (None, torch.randn(2, 8).requires_grad_()), (torch.tensor([0, 16, 70]), None)):
        given = (a, u, x0, offsets, -2)
        assert set(torch.library.opcheck(torch.ops.recfact.solve_and_keep, given).values()) == {"SUCCESS"}
        with torch.no_grad():
            x, kept = torch.ops.recfact.solve_and_keep(*given)
            own = None if x0 is None else x0.detach()
            back = (a.detach(), u.detach(), own, None, kept, torch.ones_like(x), offsets, -2, False, "full")
            assert set(torch.library.opcheck(torch.ops.recfact.solve_gradients, back).values()) == {"SUCCESS"}


ASKED = {
    "halves": ({}, True),
    "gates in float32": ({"a": torch.float32}, True),
    "float32": ({"a": torch.float32, "u": torch.float32}, False),
    "gates in float64": ({"a": torch.float64}, False),
    "constant gates": ({"needs": False}, False),
    "few channels": ({"shape": (2, 700, 8)}, False),
    "few channels and steps": ({"shape": (2, 70, 8)}, True),
    "shared by many": ({"shape": (132, 700, 1024)}, True),
    "shared by too many": ({"shape": (131, 700, 1024)}, False),
    "on the host": ({"device": "cpu"}, False),
    "empty": ({"shape": (0, 700, 8)}, False),
}


@pytest.mark.parametrize("case", ASKED)
def test_they_are_kept_where_gradients_read_them(monkeypatch, case):
    options, expected = ASKED[case]
    shape, device = options.get("shape", (2048, 700, 16)), options.get("device", "cuda:0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(multi_processor_count=132))
    with torch._subclasses.FakeTensorMode():
        a = torch.empty((*shape[:-1], 1), dtype=options.get("a", torch.bfloat16), device=device)
        a.requires_grad_(options.get("needs", True))
        u = torch.empty(shape, dtype=options.get("u", torch.bfloat16), device=device)
        assert operators._keeps(a, u, 1, -2) == expected
        with torch.no_grad():
            assert not operators._keeps(a, u, 1, -2)
