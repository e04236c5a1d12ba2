"""Code of `recfact.torch` that torch.compile compiles whole, once for all lengths."""

import importlib
from itertools import permutations
from shutil import which

import pytest

import recfact as rf

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # of torch's own making

NEEDS_COMPILER = [pytest.mark.slow, pytest.mark.skipif(which("g++") is None, reason="the inductor needs g++")]
BACKENDS = ["aot_eager", pytest.param("inductor", marks=NEEDS_COMPILER)]
SHAPES = [((2, 3, 4), (2, 3, 4)), ((2, 1, 4), (2, 3, 4)), ((2, 3, 4), (1, 3, 4)), ((4,), (2, 3, 4)), ((2, 3, 4), (4,))]


def counted(call, backend):
    """Return a function compiled for any lengths, without breaks, and what counts compilations."""
    testing = importlib.import_module("torch._dynamo.testing")
    torch._dynamo.reset()
    counter = testing.CompileCounterWithBackend(backend)
    return torch.compile(call, backend=counter, fullgraph=True, dynamic=True), counter


def close_gradients(compiled, eager, given):
    found, expected = compiled(*given), eager(*given)
    torch.testing.assert_close(found, expected)
    wanted = [one for one in given if one.requires_grad]
    pairs = zip(*(torch.autograd.grad(y.sin().real.sum(), wanted) for y in (found, expected)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other)


def laid(shape, order, **options):
    """Return random numbers whose axes lie in memory in this order."""
    generator = torch.Generator().manual_seed(0)
    stored = torch.randn([shape[k] for k in order], generator=generator, **options)
    return stored.permute([order.index(k) for k in range(len(shape))])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_solve_is_compiled_once_for_all_lengths(backend):
    def solved(a, u, x0):
        return rf.torch.solve(a.sigmoid(), 2 * u, x0=x0, window="jagged:4")

    compiled, counter = counted(solved, backend)
    for n in (9, 4, 30):
        a, u, x0 = torch.randn(3, 1, n), torch.randn(3, 5, n), torch.randn(5)
        close_gradients(compiled, solved, [one.requires_grad_() for one in (a, u, x0)])
    assert counter.frame_count == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
def test_number_types(dtype):
    def solved(a, u):
        return rf.torch.solve(a, u, dim=0, window="jagged:3")

    a, u = torch.rand(9, 1), torch.randn(9, 4)
    compiled, _ = counted(solved, "aot_eager")
    close_gradients(compiled, solved, [one.to(dtype).requires_grad_() for one in (a, u)])
    mixed = [a.requires_grad_(), u.to(torch.bfloat16).requires_grad_()]
    assert compiled(*mixed).dtype == torch.float32
    close_gradients(compiled, solved, mixed)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_layer_is_compiled_once_for_all_lengths(backend):
    torch.manual_seed(0)
    layer = rf.torch.Phalanx(12, heads=4, gate_groups=2, window=rf.Jagged(4), dtype=torch.float64)
    compiled, counter = counted(layer, backend)
    for n in (11, 5, 24):
        x = torch.randn(2, n, 12, dtype=torch.float64, requires_grad=True)
        y, expected = compiled(x), layer(x)
        torch.testing.assert_close(y, expected)
        leaves = [x, *layer.parameters()]
        pairs = zip(*(torch.autograd.grad(one.sin().sum(), leaves) for one in (y, expected)), strict=True)
        for one, other in pairs:
            torch.testing.assert_close(one, other)
    assert counter.frame_count == 1


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_compiled_code_knows_where_states_lie(shapes):
    """Where a and u lie differently, code that is compiled for the wrong strides reads wrong numbers."""
    with torch._subclasses.FakeTensorMode() as mode:
        for orders in zip(*(permutations(range(len(shape))) for shape in shapes), strict=False):
            given = [laid(shape, order) for shape, order in zip(shapes, orders, strict=True)]
            fake = torch.ops.recfact.solve(*map(mode.from_tensor, given), None, None, -1, False, "full")
            with torch._subclasses.fake_tensor.unset_fake_temporarily():
                real = torch.ops.recfact.solve(*given, None, None, -1, False, "full")
            assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("offsets", [None, [0, 2, 2, 6]])
def test_the_operators_are_as_torch_wants_them(initial, offsets):
    a, u = laid((2, 1, 6), (2, 0, 1)).requires_grad_(), laid((2, 4, 6), (0, 2, 1)).requires_grad_()
    x0 = None
    if initial:
        x0 = torch.randn(4 if offsets is None else (4, 3), requires_grad=True)
    offsets = None if offsets is None else torch.tensor(offsets)
    given = (a, u, x0, offsets, -1, False, "jagged:2")
    torch.library.opcheck(torch.ops.recfact.solve, given)
    with torch.no_grad():
        x = torch.ops.recfact.solve(*given)
        torch.library.opcheck(torch.ops.recfact.solve_gradients, (a, u, x0, x, None, torch.randn_like(x), *given[3:]))
