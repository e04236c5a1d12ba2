"""What torch records, transforms and traces: taken where nothing is recorded, refused by its name elsewhere."""

import pytest

import recfact as rf
from recfact.errors import ArrayTypeError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")]


def not_recording():
    """Return the ways to say that gradients aren't to be recorded."""
    return {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.parametrize("mode", not_recording().values(), ids=not_recording())
def test_tensors_that_require_gradients_are_taken_while_none_are_recorded(mode):
    a, u, x0 = (torch.full((4, 4), value, requires_grad=True) for value in (0.5, 1.0, 2.0))
    with mode():
        x = rf.solve(a, u, x0=x0[0])
        assert not x.requires_grad
        assert x.tolist() == [[2.0] * 4] * 4
        assert torch.equal(
            torch.stack(list(rf.solve_chunks([(a[:, :2], u[:, :2]), (a[:, 2:], u[:, 2:])]))[1:], 0)[0],
            rf.solve(a, u)[:, 2:],
        )
        assert rf.solve(a, u, out=u) is u
    with pytest.raises(ArrayTypeError, match=r"a is a torch tensor that requires gradients"):
        rf.solve(a, u.detach())
    with torch.no_grad(), torch.enable_grad(), pytest.raises(ArrayTypeError, match="requires gradients"):
        rf.solve(a, u)


def test_forward_of_a_function_is_given_tensors_as_they_are():
    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(a, u):
            return rf.solve(a, u)

        @staticmethod
        def setup_context(ctx, given, output):
            ctx.save_for_forward(*given, output)

        @staticmethod
        def jvp(ctx, of_a, of_u):
            a, _, x = ctx.saved_tensors
            earlier = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
            return rf.solve(a.detach(), (earlier * of_a + of_u).detach())

    a, u = torch.full((4,), 0.5, requires_grad=True), torch.ones(4, requires_grad=True)
    x = Solve.apply(a, u)
    assert x.requires_grad
    assert x.tolist() == [1, 1.5, 1.75, 1.875]


def test_what_holds_a_tangent_is_refused():
    with torch.autograd.forward_ad.dual_level():
        u = torch.autograd.forward_ad.make_dual(torch.ones(4), torch.ones(4))
        with pytest.raises(ArrayTypeError, match="u carries a tangent"):
            rf.solve(0.5, u)
        assert rf.solve(0.5, torch.autograd.forward_ad.unpack_dual(u).primal).shape == (4,)


def test_writing_to_what_gradients_need_is_noticed_by_torch():
    weight, kept = torch.ones(4, requires_grad=True), torch.ones(4)
    loss = (weight * kept).sum()
    rf.solve(0.5, torch.ones(4), out=kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


TRANSFORMED = {
    "vmap": (lambda solve, u: torch.func.vmap(solve)(u), "BatchedTensor, which torch.func"),
    "grad": (lambda solve, u: torch.func.grad(lambda u: solve(u).sum())(u), "GradTrackingTensor, which torch.func"),
    "jvp": (lambda solve, u: torch.func.jvp(solve, (u,), (u,)), "GradTrackingTensor, which torch.func"),
    "functionalize": (lambda solve, u: torch.func.functionalize(solve)(u), "FunctionalTensor, which torch.func"),
    "jit.trace": (lambda solve, u: torch.jit.trace(solve, u), r"traced by torch\.jit\.trace"),
    "fx": (lambda solve, u: __import__("torch.fx").fx.symbolic_trace(solve), r"got Proxy, which torch\.fx traces"),
    "export": (lambda solve, u: torch.export.export(Module(solve), (u,)), r"torch\.compile and torch\.export can't"),
}


class Module(torch.nn.Module):
    def __init__(self, solve):
        super().__init__()
        self.solve = solve

    def forward(self, u):
        return self.solve(u)


@pytest.mark.parametrize("transformation", TRANSFORMED)
@pytest.mark.parametrize("place", ["a", "u"])
def test_what_torch_transforms_is_refused_by_its_name(transformation, place):
    call, message = TRANSFORMED[transformation]
    plain = torch.ones(4)
    solve = (lambda u: rf.solve(plain, u)) if place == "u" else (lambda a: rf.solve(a, plain))
    with pytest.raises(Exception, match=message):
        call(solve, torch.ones(4, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_plain_tensors_beside_transformed_ones(dtype):
    plain = torch.ones(4, dtype=dtype)
    summed = torch.func.vmap(lambda u: u + rf.solve(0.5, plain))(torch.zeros(2, 4))
    assert summed.tolist() == [[1, 1.5, 1.75, 1.875]] * 2
    with pytest.raises(
        ArrayTypeError, match=r"\w+ is a GradTrackingTensor, which torch\.func"
    ):  # it wraps new ones, too
        torch.func.grad(lambda u: (u * rf.solve(0.5, plain)).sum())(torch.zeros(4))
    with pytest.raises(ArrayTypeError, match=r"\w is a BatchedTensor, which torch\.func"):
        torch.func.vmap(lambda u: rf.solve(plain, u))(torch.zeros(2, 4))


def test_tensors_that_do_not_hold_their_numbers_are_refused():
    with torch._subclasses.FakeTensorMode():
        u = torch.ones(4)
    with pytest.raises(ArrayTypeError, match="u is a FakeTensor, which doesn't hold its numbers itself"):
        rf.solve(0.5, u)

    class Plain(torch.Tensor):
        pass

    Plain.__module__ = "theirs"
    assert rf.solve(0.5, torch.ones(3).as_subclass(Plain)).tolist() == [1, 1.5, 1.75]


@pytest.mark.filterwarnings("ignore")  # of torch's own making
def test_compiled_code_leaves_out_what_is_told_to_be_left_out():
    solve = torch.compiler.disable(rf.solve)
    compiled = torch.compile(lambda u: 2 * solve(0.5, u + 1), backend="eager")
    assert compiled(torch.zeros(3)).tolist() == [2, 3, 3.5]
    with pytest.raises(Exception, match=r"torch\.compile and torch\.export can't look into recfact"):
        torch.compile(lambda u: rf.solve(0.5, u), backend="eager", fullgraph=True)(torch.zeros(3))


OPTIONS = [{}, {"window": rf.Jagged(2)}, {"offsets": [0, 2, 3]}, {"return_state": True}, {"algorithm": "sequential"}]


@pytest.mark.filterwarnings("ignore")  # of torch's own making
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_compiled_code_breaks_at_a_solve_and_goes_on(options):
    """Without fullgraph torch calls what it can't compile, and would look into each function that this calls."""

    def solved(u):
        found = rf.solve(0.5, u + 1, **options)
        return 2 * (found[0] if "return_state" in options else found)

    torch.compiler.reset()
    assert torch.compile(solved, backend="eager")(torch.zeros(3)).tolist() == solved(torch.zeros(3)).tolist()
