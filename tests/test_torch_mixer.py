"""The mixer of tensors in one pass: derivatives of every kind, and what is left to the operations it is made of."""

import pytest

import recfact as rf

torch = pytest.importorskip("torch")

from recfact.torch import mixer  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),  # by torch's own use
]
WINDOWS = [rf.Full(), rf.Jagged(2), rf.Jagged(2, 0)]
windows = pytest.mark.parametrize("window", WINDOWS, ids=str)


def tensors(n=5, a_shape=None, dtype=torch.float64, gates=(True, True)):
    """Return coefficients, gates and values of 2 heads of 8 features that share gates, which a kernel takes."""
    generator = torch.Generator().manual_seed(3)
    shapes = a_shape or (1, n, 2), (1, n, 1, 8), (1, n, 1, 8), (1, n, 2, 8)
    a, q, k, v = (torch.randn(shape, dtype=dtype, generator=generator).requires_grad_() for shape in shapes)
    return a, q if gates[0] else None, k if gates[1] else None, v


def is_one_pass(y):
    return type(y.grad_fn).__name__ == "MixBackward"


@windows
@pytest.mark.parametrize("a_shape", [None, (2,), (5, 1), (1, 1, 1)])
def test_derivatives_of_both_modes_and_orders(window, a_shape):
    given = tensors(a_shape=a_shape)

    def mix(*given):
        return mixer.mix(*given, window)

    assert is_one_pass(mix(*given))
    assert torch.autograd.gradcheck(mix, given, check_forward_ad=True, check_batched_grad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(mix, given, fast_mode=True)


@windows
@pytest.mark.parametrize("gates", [(True, False), (False, True), (False, False)])
def test_derivatives_without_gates(window, gates):
    given = tensors(gates=gates)
    own = [one for one in given if one is not None]

    def mix(*own):
        those = iter(own)
        return mixer.mix(*(None if one is None else next(those) for one in given), window)

    assert torch.autograd.gradcheck(mix, own, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(mix, own, fast_mode=True)


@windows
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_has_the_bits_of_the_operations_it_is_made_of(window, dtype):
    given = tensors(n=39, dtype=dtype)
    y, expected = mixer.mix(*given, window), mixer.composed(*given, window)
    assert torch.equal(y, expected)
    g = torch.randn(y.shape, dtype=dtype, generator=torch.Generator().manual_seed(4))
    for mine, theirs in zip(*(torch.autograd.grad(one, given, g) for one in (y, expected)), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradients_that_are_differentiable_count_each_argument_once():
    """Where a gate is made of the values, its gradient isn't theirs."""
    a, q, k, v = tensors()
    y = mixer.mix(a, q * v[:, :, :1], k, v, rf.Full())
    assert is_one_pass(y)
    once = torch.autograd.grad(y.square().sum(), (a, q, k, v), retain_graph=True)
    again = torch.autograd.grad(y.square().sum(), (a, q, k, v), create_graph=True)
    for one, other in zip(once, again, strict=True):
        torch.testing.assert_close(one, other)


def test_cotangents_may_be_negative_views_and_repeat_in_memory():
    given = tensors()
    y = mixer.mix(*given, rf.Jagged(2))
    expected = torch.autograd.grad(y, given, torch.full_like(y, -1.5), retain_graph=True)
    for g in (torch._neg_view(torch.full_like(y, 1.5)), torch.tensor(-1.5, dtype=y.dtype).expand(y.shape)):
        for one, other in zip(torch.autograd.grad(y, given, g, retain_graph=True), expected, strict=True):
            assert torch.equal(one, other)


def test_only_what_is_asked_for_is_differentiated():
    a, q, k, v = tensors()
    expected = torch.autograd.grad(mixer.mix(a, q, k, v, rf.Full()).square().sum(), v)[0]
    y = mixer.mix(a.detach(), q.detach(), k.detach(), v, rf.Full())
    (once,) = torch.autograd.grad(y.square().sum(), v, create_graph=True)
    torch.testing.assert_close(once, expected)
    assert torch.autograd.grad(once.sum(), v)[0].any()
    with torch.no_grad():
        assert torch.equal(mixer.mix(a, q, k, v, rf.Full()), y)


def test_transforms_of_functions():
    a, q, k, v = (one.detach() for one in tensors())

    def total(v):
        return mixer.mix(a, q, k, v, rf.Jagged(2)).square().sum()

    rows = torch.stack([v, 2 * v])
    each = torch.func.vmap(torch.func.grad(total))(rows)
    for row, found in zip(rows, each, strict=True):
        torch.testing.assert_close(found, torch.func.grad(total)(row))
        torch.testing.assert_close(found, torch.autograd.functional.jacobian(total, row))
    torch.testing.assert_close(torch.func.hessian(total)(v), torch.autograd.functional.hessian(total, v))


def test_constants_in_transforms_of_functions_are_mixed_too():
    given = tensors()
    y = mixer.mix(*given, rf.Full()).detach()
    weights = torch.randn(3, *y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(5))

    def weighted(weight):
        return (weight * mixer.mix(*given, rf.Full())).sum()

    torch.testing.assert_close(torch.func.grad(weighted)(weights[0]), y)
    torch.testing.assert_close(torch.func.vmap(weighted)(weights), (weights * y).sum((1, 2, 3, 4)))
    torch.testing.assert_close(torch.func.jvp(weighted, (weights[0],), (weights[1],))[1], (weights[1] * y).sum())


def test_values_that_change_before_the_gradients_are_noticed():
    a, q, k, v = tensors()
    y = mixer.mix(a, q, k, v, rf.Full())
    with torch.no_grad():
        k.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_no_kernel_takes_is_composed():
    a, q, k, v = tensors()
    turned = v.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    cases = {
        "a window that slides": (a, q, k, v, rf.Uniform(3)),
        "another layout": (a, q, k, turned, rf.Full()),
        "several number types": (a.float(), q, k, v, rf.Full()),
        "halves": (*(one.bfloat16() for one in (a, q, k, v)), rf.Full()),
        "groups of two sizes": (a, q.repeat(1, 1, 2, 1), k, v, rf.Full()),
        "negative views": (a, q, k, torch._neg_view(-v), rf.Full()),
    }
    for name, given in cases.items():
        y = mixer.mix(*given)
        assert not is_one_pass(y), name
        torch.testing.assert_close(y, mixer.composed(*given))
        y.sum().backward()


def test_the_layer_and_the_function_take_it():
    layer, x = rf.torch.Phalanx(32), torch.randn(2, 20, 32)
    nodes, seen = [layer(x).grad_fn], set()
    while nodes:
        node = nodes.pop()
        seen.add(type(node).__name__)
        nodes += [below for below, _ in node.next_functions if below is not None]
    assert "MixBackward" in seen
    assert "RecurrenceBackward" not in seen
    assert is_one_pass(rf.phalanx(*tensors(), window="jagged:2"))


class OnGPU(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True


def test_a_gpu_is_asked_where_no_derivatives_are(monkeypatch):
    from recfact.gpu import mixer as on_gpu

    monkeypatch.setattr(on_gpu, "mixed", lambda *given: "one launch")
    monkeypatch.setattr(mixer, "composed", lambda *given: "composed")
    a, q, k, v = (one.detach().as_subclass(OnGPU) for one in tensors())
    window = rf.Jagged(2)
    assert mixer.mix(a, q, k, v, window) == "one launch"
    assert mixer.mix(a, None, None, v, window) == "one launch"
    assert mixer.mix(a, q.as_subclass(torch.Tensor), k, v, window) == "composed"
    with torch.autograd.forward_ad.dual_level():
        moving = torch.autograd.forward_ad.make_dual(v, torch.ones_like(v))
        assert mixer.mix(a, q, k, moving, window) == "composed"
    learned = v.detach().requires_grad_()
    assert mixer.mix(a, q, k, learned, window) == "composed"
    with torch.no_grad():
        assert mixer.mix(a, q, k, learned, window) == "one launch"
    monkeypatch.setattr(on_gpu, "mixed", lambda *given: None)
    assert mixer.mix(a, q, k, v, window) == "composed"
