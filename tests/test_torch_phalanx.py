"""`recfact.torch.Phalanx`: against a layer of einsums, in pieces, packed, converted, compiled and trained."""

import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import recfact as rf
from recfact.errors import DTypeError, OptionError, OptionTypeError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),  # by torch's own use
]

WINDOWS = [rf.Full(), rf.Uniform(5), rf.Jagged(4), rf.Jagged(3, 0), rf.Jagged(1, 2), rf.Jagged(2, 3)]
ABLATIONS = {
    "as it is": {},
    "decay": {"most": 0.8},
    "signed": {"coefficient": "tanh"},
    "fixed decay": {"coefficient": "learned"},
    "constant decay": {"coefficient": "constant", "most": 0.9},
    "no gates": {"gates": False},
    "one gate for all": {"gate_groups": 1},
    "a gate for each": {"gate_groups": 4},
    "biases": {"bias": True},
    "one head": {"heads": 1, "gate_groups": 1},
}
ablations = pytest.mark.parametrize("options", ABLATIONS.values(), ids=ABLATIONS)
windows = pytest.mark.parametrize("window", WINDOWS, ids=str)


def made(dim=12, dtype=torch.float64, **options):
    """Return a layer of 4 heads of 3 features, unless said otherwise, and random weights of size 1."""
    torch.manual_seed(0)
    layer = rf.torch.Phalanx(dim, **({"heads": 4, "gate_groups": 2} | options), dtype=dtype)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=1.0 if parameter.ndim == 1 else dim**-0.5)
    return layer


def inputs(batch=2, n=11, dim=12, dtype=torch.float64):
    return torch.randn(batch, n, dim, dtype=dtype, generator=torch.Generator().manual_seed(1))


def kept(n, window):
    """Return which inputs each step keeps, by the definition of the window."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    if isinstance(window, rf.Uniform):
        inside = i - j < window.lags
    elif isinstance(window, rf.Jagged):
        inside = i // window.block - j // window.block <= window.terms
    else:
        inside = torch.ones(n, n, dtype=torch.bool)
    return inside & (i >= j)


def with_einsums(layer, x, window):
    """Return what the layer does, with the matrix of every head."""
    batch, n, dim = x.shape
    heads, groups, d = layer.heads, layer.gate_groups, dim // layer.heads
    split = "bnhd", torch.arange(heads) // (heads // groups)

    def projected(projection):
        return projection(x).reshape(batch, n, -1, d)

    match layer.kind:
        case "constant":
            a = torch.full((batch, n, heads), layer.most, dtype=x.dtype)
        case "learned":
            a = layer.most / (1 + torch.exp(-layer.coefficient)).expand(batch, n, heads)
        case "tanh":
            a = layer.most * torch.tanh(layer.coefficient(x))
        case _:
            a = layer.most / (1 + torch.exp(-layer.coefficient(x)))
    v = projected(layer.value)
    k = 1 / (1 + torch.exp(-projected(layer.key)[:, :, split[1]])) if layer.key else torch.ones_like(v)
    q = projected(layer.query)[:, :, split[1]] if layer.query else torch.ones_like(v)
    rows = []
    for i in range(n):  # row i is a_i times the row before, and 1 on the diagonal
        before = rows[-1] * a[:, i, :, None] if rows else torch.zeros(batch, heads, n, dtype=x.dtype)
        rows.append(before + torch.eye(n, dtype=x.dtype)[i])
    matrices = torch.stack(rows, 2) * kept(n, window)
    states = torch.einsum("bhij,bjhd->bihd", matrices, k * v)
    return torch.einsum("bnf,gf->bng", (q * states + v).reshape(batch, n, dim), layer.out.weight)


def gradients(y, layer, x):
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    return torch.autograd.grad((weights * y).sum(), [x, *layer.parameters()])


@windows
@ablations
def test_it_is_the_layer_of_einsums_and_so_are_its_gradients(options, window):
    layer, x = made(window=window, **options), inputs().requires_grad_()
    y, expected = layer(x), with_einsums(layer, x, window)
    torch.testing.assert_close(y, expected)
    for mine, theirs in zip(gradients(y, layer, x), gradients(expected, layer, x), strict=True):
        torch.testing.assert_close(mine, theirs)


@windows
def test_a_prompt_and_then_steps_are_one_call(window):
    layer = made(window=window)
    x = inputs(n=13)  # three blocks of four and one step
    with torch.no_grad():
        whole = layer(x)
        for prompt in range(13):
            y, state = layer(x[:, :prompt], return_state=True)
            rows = [*y.unbind(1)]
            for token in x[:, prompt:].unbind(1):
                y, state = layer.step(token, state)
                rows.append(y)
            torch.testing.assert_close(torch.stack(rows, 1), whole)
            torch.testing.assert_close(
                torch.cat(
                    [layer(x[:, :prompt]), layer(x[:, prompt:], state=layer(x[:, :prompt], return_state=True)[1])], 1
                ),
                whole,
            )


def test_a_first_state_is_that_of_no_steps():
    layer = made()
    x, state = inputs(n=3), layer.init_state(2)
    assert (tuple(state.shape), state.phase, state.dtype) == ((2, 4, 3), 0, torch.float64)
    torch.testing.assert_close(layer(x, state=state), layer(x))
    y, _ = layer.step(x[:, 0], state)
    torch.testing.assert_close(y, layer(x)[:, 0])


def test_rows_of_a_batch_may_stand_at_different_steps():
    layer, x = made(window=rf.Jagged(4)), inputs(batch=3, n=20)
    with torch.no_grad():
        lengths = (3, 11, 8)
        ends = [layer(x[row : row + 1, :n], return_state=True)[1][0] for row, n in enumerate(lengths)]
        state, found = rf.torch.State.stack(ends), []
        for i in range(9):
            y, state = layer.step(torch.stack([x[row, n + i] for row, n in enumerate(lengths)]), state)
            found.append(y)
        for row, n in enumerate(lengths):
            torch.testing.assert_close(torch.stack(found, 1)[row], layer(x[row : row + 1])[0, n : n + 9])


@windows
def test_packed_sequences_are_those_alone(window):
    layer, x, offsets = made(window=window), inputs(n=14), (0, 5, 5, 6, 14)
    packed = layer(x, offsets=torch.tensor(offsets))
    alone = [layer(x[:, start:stop]) for start, stop in pairwise(offsets)]
    torch.testing.assert_close(packed, torch.cat(alone, 1))


@windows
def test_packed_prompts_go_on_as_those_alone(window):
    layer, x, tokens = made(window=window), inputs(n=14)[:1], inputs(n=6)
    prompts, more = (0, 5, 6, 14), (0, 2, 2, 6)
    _, state = layer(x, offsets=prompts, return_state=True)
    y, end = layer(tokens[:1], offsets=more, state=state, return_state=True)
    y_t, _ = layer.step(tokens[1, :3], end[0])
    for row, (first, then) in enumerate(zip(pairwise(prompts), pairwise(more), strict=True)):
        whole = layer(torch.cat([x[:, slice(*first)], tokens[:1, slice(*then)], tokens[1:, row : row + 1]], 1))
        torch.testing.assert_close(
            torch.cat([y[:, slice(*then)], y_t[None, row : row + 1]], 1), whole[:, first[1] - first[0] :]
        )


def test_gradients_pass_through_a_state_until_it_is_detached():
    layer, x = made(window=rf.Jagged(4)), inputs(n=10).requires_grad_()
    whole = torch.autograd.grad(layer(x)[:, 6:].square().sum(), x)[0]
    _, state = layer(x[:, :6], return_state=True)
    through = torch.autograd.grad(layer(x[:, 6:], state=state).square().sum(), x)[0]
    torch.testing.assert_close(through, whole)
    _, state = layer(x[:, :6], return_state=True)
    cut = torch.autograd.grad(layer(x[:, 6:], state=state.detach()).square().sum(), x)[0]
    assert not cut[:, :6].any()
    assert through[:, :6].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@ablations
def test_everything_trains(options, dtype):
    layer, x = made(dtype=dtype, **options), inputs(dtype=dtype)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        loss = (layer(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in layer.parameters())
    assert layer(x).dtype == dtype
    assert losses[1] < losses[0] or dtype == torch.bfloat16


@ablations
def test_weights_go_through_a_state_dict(options):
    layer, x = made(**options), inputs()
    again = rf.torch.Phalanx(12, **({"heads": 4, "gate_groups": 2} | options), dtype=torch.float64)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


def test_it_is_as_large_as_it_is_said_to_be():
    layer = rf.torch.Phalanx(2048, device="meta")
    assert (layer.heads, layer.gate_groups) == (128, 8)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 2 * 2048**2 + 2048 * 128 + 2 * 8 * 16 * 2048
    assert rf.torch.Phalanx(48, device="meta").gate_groups == 1  # of three heads
    assert "heads=3, gate_groups=1, window=Jagged(16), coefficient='sigmoid'" in repr(
        rf.torch.Phalanx(48, device="meta")
    )


def test_the_figure_shows_the_shapes_of_the_layer():
    from tools.layer_figure import FIGURE, figure

    assert (Path(__file__).parent.parent / FIGURE).read_text(encoding="utf-8") == figure()


# --- numbers ---


def test_coefficients_keep_their_digits():
    """A logistic function in bfloat16 is 1 from 6.24 on, and then nothing fades."""
    layer = made(dim=16, heads=1, gate_groups=1, bias=True, window="full", gates=False)
    with torch.no_grad():
        layer.coefficient.weight.zero_()
        layer.coefficient.bias.fill_(7.0)
        layer.value.weight.copy_(torch.eye(16))
        layer.out.weight.copy_(torch.eye(16))
        x = torch.zeros(1, 3000, 16, dtype=torch.float64)
        x[:, 0] = 1
        last = torch.sigmoid(torch.tensor(7.0, dtype=torch.float64)) ** 2999
        assert 0.05 < last < 0.1
        torch.testing.assert_close(layer(x)[0, -1, 0], last)
        half = layer.bfloat16()(x.bfloat16())[0, -1, 0]
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.double(), last, rtol=0.01, atol=0)
        single = layer.float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(single(x.float())[0, -1, 0].double(), last, rtol=0.01, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_states(dtype):
    layer, x = made(dtype=torch.float32), inputs(dtype=torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        whole, (_, state) = layer(x), layer(x[:, :6], return_state=True)
        assert whole.dtype == dtype
        assert state.dtype == torch.float32
        y, state = layer.step(x[:, 6], state)
        torch.testing.assert_close(y, whole[:, 6])
    y, _ = layer.step(x[:, 7], state)  # which another number type of the projections may go on with
    torch.testing.assert_close(y, layer(x)[:, 7], rtol=0.05, atol=0.05)
    whole.float().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in layer.parameters())


# --- weights of the paper's implementation ---


def official(weights, x, heads=2, groups=1, d=16, block=16):
    """Return what its block two-pass formula makes of its weights, in float64."""
    batch, n, _ = x.shape

    def projected(name):
        return torch.einsum("bnf,gf->bng", x, weights[f"proj_{name}.weight"]) + weights.get(f"proj_{name}.bias", 0)

    a = torch.sigmoid(projected("a"))
    b, c = (projected(name).reshape(batch, n, groups, d).repeat_interleave(heads // groups, 2) for name in "bc")
    v = projected("v").reshape(batch, n, heads, d)
    u, local, states = torch.sigmoid(b) * v, [], []
    for i in range(n):
        start = i % block == 0
        if start:
            entering = local[-1] if local else torch.zeros_like(u[:, 0])
            product = torch.ones_like(a[:, 0])
        product = product * a[:, i]
        local.append(u[:, i] if start else a[:, i, :, None] * local[-1] + u[:, i])
        states.append(local[-1] + product[..., None] * entering)
    y = c * torch.stack(states, 1) + v
    return torch.einsum("bnf,gf->bng", y.reshape(batch, n, -1), weights["proj_out.weight"])


def official_weights(dim=32):
    generator = torch.Generator().manual_seed(2)
    sizes = {"a": 2, "b": 16, "c": 16, "v": dim, "out": dim}
    weights = {f"proj_{name}.weight": (size, dim) for name, size in sizes.items()}
    weights |= {f"proj_{name}.bias": (sizes[name],) for name in "abc"}
    return {
        name: torch.randn(shape, dtype=torch.float64, generator=generator) * (len(shape) == 1 or dim**-0.5)
        for name, shape in weights.items()
    }


def test_weights_of_the_papers_implementation():
    weights, x = official_weights(), inputs(n=37, dim=32)
    layer = rf.torch.Phalanx(32, gate_groups=1, bias=True, dtype=torch.float64)
    layer.load_state_dict(rf.torch.phalanx_weights(weights))
    torch.testing.assert_close(layer(x), official(weights, x))


def test_weights_of_a_model_of_such_layers():
    own = {f"blocks.3.mixer.{name}": value for name, value in official_weights().items()} | {
        "norm.weight": torch.ones(2)
    }
    found = rf.torch.phalanx_weights(own)
    assert len(found) == len(own)
    assert found["blocks.3.mixer.key.bias"] is own["blocks.3.mixer.proj_b.bias"]
    assert found["norm.weight"] is own["norm.weight"]
    with pytest.raises(OptionError, match=r"state_dict must hold weights of proj_a, .* got \['norm.weight'\]"):
        rf.torch.phalanx_weights({"norm.weight": torch.ones(2)})


# --- compiled and exported ---


@pytest.mark.parametrize("packed", [False, True])
@ablations
@pytest.mark.filterwarnings("ignore")  # of torch's own making
def test_compiled(options, packed):
    torch._dynamo.reset()
    layer, x = made(window=rf.Jagged(4), **options), inputs().requires_grad_()
    given = {"offsets": torch.tensor([0, 5, 11])} if packed else {}
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    y, expected = compiled(x, **given), layer(x, **given)
    torch.testing.assert_close(y, expected)
    for mine, theirs in zip(gradients(y, layer, x), gradients(expected, layer, x), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.filterwarnings("ignore")  # of torch's own making
def test_a_prompt_and_steps_compiled():
    torch._dynamo.reset()
    layer, x = made(), inputs(n=40)
    prompt, step = (
        torch.compile(call, fullgraph=True, backend="aot_eager")
        for call in (lambda x: layer(x, return_state=True), layer.step)
    )
    with torch.no_grad():
        y, state = prompt(x[:, :5])
        rows = [*y.unbind(1)]
        for token in x[:, 5:].unbind(1):
            y, state = step(token, state)
            rows.append(y)
        torch.testing.assert_close(torch.stack(rows, 1), layer(x))


@pytest.mark.parametrize(("phase", "times"), [(int, 3), (torch.tensor, 1)])
@pytest.mark.filterwarnings("ignore")  # of torch's own making
def test_steps_are_compiled_a_few_times_alone(phase, times):
    """As many times as parts are added, and where the phase changes first; once with a tensor for it."""
    graphs = []
    torch._dynamo.reset()
    layer, x = made(window=rf.Jagged(4)), inputs(n=40)
    step = torch.compile(layer.step, fullgraph=True, backend=lambda graph, _: graphs.append(graph) or graph.forward)
    with torch.no_grad():
        _, state = layer(x[:, :5], return_state=True)
        state = replace(state, phase=phase(state.phase))
        for token in x[:, 5:].unbind(1):
            y, state = step(token, state)
        torch.testing.assert_close(y, layer(x)[:, -1])
    assert len(graphs) <= times


@pytest.mark.filterwarnings("ignore")  # of torch's own making
def test_exported_for_any_length():
    layer, x = made(window=rf.Jagged(4)), inputs()
    steps = torch.export.Dim("n", min=2, max=1000)
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {1: steps}})
    longer = inputs(n=23)
    torch.testing.assert_close(program.module()(longer), layer(longer))


# --- what doesn't fit ---

OPTIONS = {
    "dim must be a multiple of 16, got 40; pass heads": (40, {}),
    "dim must be at least 1": (0, {}),
    "heads must divide the 32 features, got 3": (32, {"heads": 3}),
    "gate_groups must divide the 4 heads, got 3": (32, {"heads": 4, "gate_groups": 3}),
    "gate_groups must be at least 1": (32, {"gate_groups": 0}),
    "coefficient must be one of 'sigmoid', 'tanh', 'learned', 'constant'": (32, {"coefficient": "relu"}),
    "most must be a finite number above 0, got 0": (32, {"most": 0}),
    "most must be a finite number above 0, got inf": (32, {"most": float("inf")}),
    "most must be a number, got 'all'": (32, {"most": "all"}),
    "gates must be True or False": (32, {"gates": 1}),
    "bias must be True or False": (32, {"bias": "no"}),
    "window must be": (32, {"window": "jagged"}),
}


@pytest.mark.parametrize("message", OPTIONS)
def test_options_that_do_not_fit(message):
    dim, options = OPTIONS[message]
    with pytest.raises((OptionError, OptionTypeError), match=message):
        rf.torch.Phalanx(dim, **options)


def test_arguments_that_do_not_fit():
    layer, x = made(), inputs()
    with pytest.raises(ShapeError, match=r"x must have shape \(batch, n, 12\), got \(2, 12\); call step"):
        layer(x[:, 0])
    with pytest.raises(ShapeError, match=r"x must have shape \(batch, n, 12\), got \(2, 11, 5\)"):
        layer(x[..., :5])
    with pytest.raises(ShapeError, match=r"x_t must have shape \(batch, 12\), got \(2, 11, 12\); call the layer"):
        layer.step(x, layer.init_state(2))
    with pytest.raises(OptionTypeError, match=r"state must be a State, got None .*init_state"):
        layer.step(x[:, 0], None)
    with pytest.raises(OptionError, match=r"state must be of Jagged\(16\) and shape \(2, 4, 3\)"):
        layer.step(x[:, 0], layer.init_state(3))
    with pytest.raises(OptionError, match="state must be of"):
        layer.step(x[:, 0], made(window="full").init_state(2))
    with pytest.raises(ShapeError, match="state must have the shape of one step"):
        layer(x, state=layer.init_state(3))
    with pytest.raises(DTypeError, match="state must have the number type"):
        layer(x, state=made(dtype=torch.float32).init_state(2))
    with pytest.raises(OptionTypeError, match="return_state must be True or False"):
        layer(x, return_state=2)
    with pytest.raises(OptionError, match="batch must be at least 1"):
        layer.init_state(0)
