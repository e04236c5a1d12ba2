"""`recfact.torch.context_parallel.solve` on 2, 3 and 4 processes: states and gradients are those of one process."""

import re
from fractions import Fraction

import numpy as np
import pytest

import recfact as rf
from recfact.errors import OptionError

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),  # by torch's own use
]

N = 26
WINDOWS = ["full", "jagged:4", "jagged:4:0", "jagged:3:2", "uniform:13", "jagged:1:2"]
WORLDS = [2, 3, 4]

# How many steps each of some ranks has.
LENGTHS = {
    "alike": lambda world: np.diff(np.linspace(0, N, world + 1).astype(int)).tolist(),
    "unlike": lambda world: [*[1, 2, 0][: world - 1], N - sum([1, 2, 0][: world - 1])],
    "first empty": lambda world: [0, *[5] * (world - 2), N - 5 * (world - 2)],
    "last empty": lambda world: [N - 3 * (world - 2), *[3] * (world - 2), 0],
    "all empty": lambda world: [0] * world,
}
OFFSETS = {"first": [0, 1, 2, 2, 13, 14, N], "long": [0, 21, N], "ends": [0, 0, N, N], "many": list(range(N + 1))}


def numbers(*shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, dtype=dtype, generator=generator) for shape in shapes]


def parts_of(window, phase, *step):
    """Return parts of a State of a window, of as many blocks as there may be."""
    block, terms = (1, 2) if window == "jagged:1:2" else (0, {"full": 0, "jagged:3:2": 2}.get(window, 1))
    held = 1 if phase == 0 else terms + 1
    return numbers((held, *(2,) * (block == 1), *step))[0]


def made(name, window, dtype=torch.float64, n=N, **options):
    """Return a case: the arguments of `rank_cases.solved` without the lengths, and its lengths as a function."""
    a, u, g = numbers((2, 1, n), (2, 3, n), (2, 3, n), dtype=dtype)
    return {"a": a, "u": u, "g": g, "window": window, **options}, LENGTHS[name]


def all_cases():
    for window in WINDOWS:
        for name in LENGTHS:
            yield f"{window}, {name}", made(name, window, n=0 if name == "all empty" else N)
            yield f"{window}, {name}, backwards", made(name, window, n=0 if name == "all empty" else N, reverse=True)
        yield f"{window}, second order", made("unlike", window, order=2)
        yield f"{window}, backwards, second order", made("unlike", window, order=2, reverse=True)
        for name, offsets in OFFSETS.items():
            yield f"{window}, segments {name}", made("alike", window, offsets=offsets)
            yield f"{window}, segments {name}, backwards", made("unlike", window, offsets=offsets, reverse=True)
    yield "segments, second order", made("alike", "full", offsets=OFFSETS["first"], order=2)
    yield "segments of ranks of other lengths", made("unlike", "full", offsets=OFFSETS["long"])
    large, late = torch.full((N,), 1e200, dtype=torch.float64), torch.eye(N, dtype=torch.float64)[-1]
    large[10], late[7] = 0, 1e-300  # what enters the second of three ranks is forgotten after the product overflows
    yield "products that overflow", ({"a": large, "u": late, "g": 0 * late, "window": "full"}, LENGTHS["alike"])
    for window in ("full", "jagged:4", "jagged:3:2", "jagged:1:2"):
        for phase in (0, 1, 3) if window in ("jagged:4", "jagged:3:2") else (int(window == "jagged:1:2"),):
            for name in ("alike", "unlike", "first empty"):
                state = window, parts_of(window, phase, 2, 3), phase
                yield (
                    f"{window}, {name}, after a State at {phase}",
                    made(name, window, state=state, return_state=True),
                )
        yield f"{window}, before a State", made("last empty", window, return_state=True)
    for window in ("full", "jagged:4", "uniform:13"):
        yield f"{window}, complex", made("alike", window, dtype=torch.complex128, order=2)
        yield f"{window}, complex, backwards", made("alike", window, dtype=torch.complex128, order=2, reverse=True)
        yield f"{window}, halves", made("unlike", window, dtype=torch.bfloat16)
        a, u, g = numbers((N, 2), (N, 2), (N, 2))
        case = {"a": a, "u": u, "g": g, "window": window, "dim": 0}
        yield f"{window}, time first", (case, LENGTHS["unlike"])
        yield f"{window}, time first, backwards", (case | {"reverse": True}, LENGTHS["unlike"])
        a, u, g = numbers((), (N,), (N,))
        case = {"a": a, "u": u, "g": g, "window": window}
        yield f"{window}, one coefficient", (case, LENGTHS["unlike"])
        yield f"{window}, one coefficient, backwards", (case | {"reverse": True}, LENGTHS["unlike"])
        a, u, g = numbers((N,), (N,), (N,))
        a[4:9:2], a[17] = 0, 0
        yield f"{window}, resets", ({"a": a, "u": u, "g": g, "window": window}, LENGTHS["alike"])


CASES = dict(all_cases())
ROWS, APART = torch.ones(1, 2), torch.tensor([1, 2])
ERRORS = {
    "an argument": ("wrong", {"at": 1, "u": torch.ones(2, 3), "a": "x"}),
    "a window": ("wrong", {"at": 1, "window": "jagged:4"}),
    "a shape": ("wrong", {"at": 1, "u": torch.ones(4, 3)}),
    "a type": ("wrong", {"at": 1, "u": torch.ones(2, 3).double()}),
    "offsets": ("wrong", {"at": 0, "offsets": [0, 1]}),
    "rows at other steps": ("wrong", {"at": 0, "window": "jagged:4", "state": rf.torch.State("jagged:4", ROWS, APART)}),
    "a State backwards": ("wrong", {"at": 0, "return_state": True, "reverse": True}),
    "a direction": ("wrong", {"at": 1, "reverse": True}),
    "segments and a State": ("wrong", {"at": 0, "return_state": True, "offsets": [0, 6]}),
    "a State elsewhere": ("wrong", {"at": 1, "state": rf.State("full", np.zeros((1, 2), np.float32))}),
    "the engine": ("broken", {"at": 0}),
    "nobody there": ("absent", {"at": 1}),
}
OTHERS = {
    "a group": ("among", {"members": [0, 1]}),
    "gradients of one rank": ("without_gradients", {}),
    "no steps": ("nothing", {}),
    "a bound": ("solved", {}),
}
LAYERS = {window: {"window": window, "heads": 2} for window in ("full", "jagged:4")} | {
    "learned": {"coefficient": "learned", "heads": 2, "gates": False}
}


def bound_case():
    a, u = numbers((3, 60), (3, 60), dtype=torch.float32)
    return {"a": a, "u": u, "g": torch.ones_like(u)}


def layer_input():
    return numbers((2, N, 6))[0]


def lists(world):
    """Return the names of all cases of some processes, and what these run."""
    named = {name: ("solved", options | {"lengths": lengths(world)}) for name, (options, lengths) in CASES.items()}
    named |= {f"wrong: {name}": case for name, case in ERRORS.items()}
    named |= OTHERS
    named |= {
        f"layer: {name}": ("layer", {"x": layer_input(), "lengths": LENGTHS["unlike"](world), "options": options})
        for name, options in LAYERS.items()
    }
    share = [60 // world] * world
    named["a bound"] = ("solved", bound_case() | {"lengths": share})
    return named


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return what each number of processes found, by name. Processes start once, when they are asked for."""
    from rank_cases import run

    found = {}

    def of(world):
        if world not in found:
            named = lists(world)
            folder = tmp_path_factory.mktemp(f"ranks{world}")
            found[world] = dict(zip(named, run(list(named.values()), world, folder), strict=True))
        return found[world]

    return of


def on_one(a, u, g, order=1, state=None, **options):
    """Return what one process finds, as `rank_cases.solved` does."""
    given = [one.clone().requires_grad_() for one in (a, u)]
    if state is not None:
        window, parts, phase = state
        given.append(parts.clone().requires_grad_())
        options["state"] = rf.torch.State(window, given[-1], phase)
    x = rf.torch.solve(*given[:2], **options)
    end = None
    if options.get("return_state"):
        x, end = x
    loss = (x * g).sum().real + (0 if end is None else end.parts.square().sum().real)
    grads = torch.autograd.grad(loss, given, create_graph=order == 2, allow_unused=True)
    if order == 2:
        square = sum(one.abs().square().sum() for one in grads)
        grads = [*grads, *torch.autograd.grad(square, given)]
    return [x, *grads], end


def close(found, expected, dtype):
    """Compare arrays, to within a few roundings of their largest number."""
    expected = expected.detach().resolve_conj()
    error = 2.0**-7 if dtype == torch.bfloat16 else 2.0**-44
    expected = expected.to(torch.complex128 if dtype.is_complex else torch.float64).numpy()
    assert found.shape == expected.shape
    scale = max(1, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=error, atol=error * scale)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("world", WORLDS)
def test_ranks_solve_what_one_process_does(name, world, results):
    options, lengths = CASES[name]
    own, dtype, dim = results(world)[name], options["u"].dtype, options.get("dim", -1)
    assert not any(isinstance(one[0], str) for one in own), own
    expected, end = on_one(**options)
    for number, whole in enumerate(expected):
        pieces = [one[0][number] for one in own]
        argument = [None, options["a"], options["u"], None][number if number < 3 else (number - 1) % 2 + 1]
        if options.get("state") is not None and number == 3:
            close(pieces[next(rank for rank, n in enumerate(lengths(world)) if n)], whole, dtype)
        elif argument is options["a"] and argument.ndim == 0:
            close(sum(pieces), whole, dtype)
        else:
            close(np.concatenate(pieces, dim), whole, dtype)
    ends = [one[1] for one in own if one[1] is not None]
    if end is not None:
        (parts, phase), owner = ends[-1], next(r for r in reversed(range(world)) if lengths(world)[r])
        assert [rank for rank, one in enumerate(own) if one[1] is not None] == [owner]
        assert phase == end.phase
        close(parts, end.parts, dtype)


@pytest.mark.parametrize("world", WORLDS)
def test_states_err_by_no_more_than_is_said(world, results):
    case = bound_case()
    a, u = (one.double().numpy() for one in (case["a"], case["u"]))
    n = u.shape[1]
    found = np.concatenate([one[0][0] for one in results(world)["a bound"]], 1)
    unit = Fraction(1, 2**24)
    for row in range(len(u)):
        coefficients, inputs = ([Fraction(value) for value in array[row].tolist()] for array in (a, u))
        x, terms = Fraction(0), []
        for i in range(n):
            x = coefficients[i] * x + inputs[i]
            terms = [abs(coefficients[i]) * term for term in terms] + [abs(inputs[i])]
            counts = [i - j + 7 + world for j in range(i + 1)]
            bound = sum(term * count * unit / (1 - count * unit) for term, count in zip(terms, counts, strict=True))
            assert abs(Fraction(float(found[row, i])) - x) <= bound


MESSAGES = {
    "an argument": ("ArrayTypeError", "RankError", r"rank 1 failed: ArrayTypeError: a must be a torch tensor"),
    "a window": ("RankError", "RankError", "window must be the same on all ranks, got full on rank 0 and jagged:4 on "),
    "a shape": ("RankError", "RankError", r"u must be the same on all ranks, got torch.float32 steps of shape \(2,\)"),
    "a type": ("RankError", "RankError", r"u must be .* torch.float64 steps of shape \(2,\) on rank 1"),
    "offsets": ("RankError", "RankError", r"offsets must be the same on all ranks, got \[0, 1\] on rank 0 and None"),
    "rows at other steps": (
        "OptionError",
        "RankError",
        r"rank 0 failed: OptionError: state must have all rows at the same step of a block, got steps 1 to 2; solve",
    ),
    "a State backwards": (
        "OptionError",
        "RankError",
        "rank 0 failed: OptionError: reverse doesn't go with state and return_state here",
    ),
    "a direction": ("RankError", "RankError", "reverse must be the same on all ranks, got False on rank 0 and True on"),
    "segments and a State": ("OptionError", "RankError", "rank 0 failed: OptionError: offsets don't go with state and"),
    "a State elsewhere": ("OptionError", "OptionError", "state must be on rank 0, the first one that has steps"),
    "the engine": ("MemoryError", "RankError", "rank 0 failed: MemoryError: no room"),
    "nobody there": (None, "RankError", "the ranks lost each other: one has ended, or didn't call this"),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_rank_that_fails_ends_all(name, world, results):
    mine, others, message = MESSAGES[name]
    at = ERRORS[name][1]["at"]
    for rank, found in enumerate(results(world)[f"wrong: {name}"]):
        kind = mine if rank == at else others
        assert (found and found[0]) == kind
        if rank != at:
            assert re.search(message, found[1]), found[1]


def test_a_rank_that_dies_ends_all(tmp_path):
    from rank_cases import run

    ((alive, dead),) = run([("dead", {"at": 1})], 2, tmp_path)
    assert alive[0] == "RankError"
    assert "the ranks lost each other: one has ended" in alive[1]
    assert dead is None


@pytest.mark.parametrize("world", WORLDS)
def test_without_any_steps_the_state_stays(world, results):
    assert results(world)["no steps"] == [((3, 0), [[1.0] * 3] * 2, 2)] * world


@pytest.mark.parametrize("world", WORLDS)
def test_some_ranks_may_solve_and_all_record_gradients_if_one_does(world, results):
    among = results(world)["a group"]
    assert among[:2] == [[1.0, 1.5], [1.75, 1.875]]
    assert all("group must be a group that this process is in" in text for text in among[2:])
    for rank, (recorded, free, grad) in enumerate(results(world)["gradients of one rank"]):
        assert recorded == [True, True]
        assert not free
        assert (grad is None) == (rank > 0)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_layer_over_ranks_is_that_of_one_process(name, world, results):
    torch.manual_seed(0)
    layer, x = rf.torch.Phalanx(6, dtype=torch.float64, **LAYERS[name]), layer_input()
    y = layer(x)
    y.square().sum().backward()
    found = results(world)[f"layer: {name}"]
    close(np.concatenate([own for own, _ in found], 1), y, x.dtype)
    for _, grads in found:
        for grad, parameter in zip(grads, layer.parameters(), strict=True):
            close(grad, parameter.grad, x.dtype)


def test_without_processes():
    with pytest.raises(OptionError, match="group needs processes"):
        rf.torch.Phalanx(16, group="world")

    for group in (None, "world"):
        with pytest.raises(
            OptionError, match=r"group needs processes that torch\.distributed connects; call torch\.distributed"
        ):
            rf.torch.context_parallel.solve(0.5, torch.ones(3), group=group)
