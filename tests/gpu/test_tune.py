"""`tune` keeps the kernel that was the fastest, by made-up times, and solves of its kind launch it from then on."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from gpu import stand_in, test_mixer, torch_stand_in
from gpu.bounds import bound
from gpu.cases import Case, random_numbers
from gpu.stand_in import on_gpu

import recfact as rf
from recfact.errors import ArrayTypeError, OptionError, ShapeError
from recfact.gpu import b2p, run, tuned, tuning
from recfact.gpu.launch import alternatives, plan
from recfact.gpu.multiprocessors import Device
from recfact.gpu.sequences import sequences_of
from recfact.gpu.solves import LAST, Solve
from recfact.number_types import BFLOAT16
from recfact.strides import contiguous
from recfact.windows import Full, Jagged, Uniform


@pytest.fixture
def times(monkeypatch):
    """Seconds of each plan, as the clock is made to say. Each is launched once."""
    made = {"sweep": 3.0, "b2p": 2.0, "chain": 1.0}

    def time_calls(calls, effort):
        for call in calls.values():
            call()
        return {name: made.get(name, 4.0) for name in calls}

    monkeypatch.setattr(tuning, "time_calls", time_calls)
    return made


def arrays(rng, dtype="bfloat16", steps=600):
    a, u = random_numbers(rng, (2, steps, 1), dtype, 0.9), random_numbers(rng, (2, steps, 16), dtype)
    return a, u


def kernel_of(machine, a, u, **options):
    x = rf.solve(on_gpu(a), on_gpu(u), axis=1, **options)
    launch = machine.launches[-1].launch
    for start, end in pairwise(options.get("offsets", [0, u.shape[1]])):
        own = Case(*(array[:, start:end] for array in (a, u, x.get())), 1)
        if start < end:
            exact, most = bound(launch, own, options.get("window", Full()), False)
            assert (abs(np.moveaxis(own.x, 1, 0).astype(exact.dtype) - exact) <= most).all()
    return launch.kernel


@pytest.mark.parametrize("fastest", ["sweep", "b2p", "chain"])
def test_the_fastest_is_launched_from_then_on(machine, rng, times, fastest):
    a, u = arrays(rng)
    times[fastest] = 0.5
    found = rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1)
    assert list(found) == [*sorted(times, key=times.__getitem__), "b2p, fewer stages"]
    assert [launch.launch.kernel for launch in machine.launches] == ["sweep", "b2p", "b2p", "chain"]
    assert kernel_of(machine, a, u) == fastest
    stand_in.forget()  # as a new process
    assert kernel_of(machine, a, u) == fastest
    assert kernel_of(machine, *arrays(rng, steps=700)) == fastest  # of the same kind


def test_the_fastest_may_be_a_kernel_that_is_planned_in_another_way(machine, rng, times):
    a, u = arrays(rng)
    times["b2p, fewer stages"] = 0.5
    rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1)
    stand_in.forget()  # as a new process
    assert kernel_of(machine, a, u) == "b2p"
    assert dict(machine.launches[-1].launch.macros)["STAGES"] == str(b2p.STAGES - 2)


def test_a_few_plans_are_timed_and_none_twice():
    rows, shared = contiguous(BFLOAT16, (128, 8192, 16)), contiguous(BFLOAT16, (128, 8192, 1))
    found = alternatives(Solve(shared, rows, rows, None, 1, Jagged(16)), Device((9, 0), 132))
    segments = {
        name: next(argument.value for argument in launch.arguments if argument.name == "segments")
        for name, launch in found.items()
    }
    # sweep has 8 warps a segment, and at most 64 segments keep 8 blocks; twice as many warps of b2p have no room.
    assert (
        list(found)
        == [*segments]
        == ["sweep", "b2p", "b2p, half the warps", "b2p, twice the warps", "b2p, fewer stages"]
    )
    assert segments["b2p, half the warps"] < segments["b2p"] < segments["b2p, twice the warps"]
    assert [dict(found[name].macros)["STAGES"] for name in ("b2p", "b2p, fewer stages")] == ["6", "4"]
    exact = alternatives(Solve(shared, rows, rows, None, 1, Full()), Device((9, 0), 132))
    assert list(exact) == ["sweep", "b2p", "b2p, fewer stages", "chain"]


def test_other_kinds_and_cards_keep_their_plans(machine, rng, times):
    a, u = arrays(rng)
    before = {window: kernel_of(machine, a, u, window=window) for window in (Full(), Jagged(16), Uniform(9))}
    times["sweep"] = 0.5
    rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1, window=Jagged(16))
    assert kernel_of(machine, a, u, window=Jagged(16)) == "sweep" != before[Jagged(16)]
    for window in (Full(), Uniform(9)):
        assert kernel_of(machine, a, u, window=window) == before[window]
    machine.capabilities = {0: "86"}
    tuned.winners()["another card"] = tuned.winners().pop(tuned.card(0))
    tuning.forget_plans()
    assert kernel_of(machine, a, u, window=Jagged(16)) == before[Jagged(16)]


def test_another_release_of_the_driver_is_another_card(machine, rng, times, monkeypatch):
    a, u = arrays(rng)
    monkeypatch.setattr(tuned, "driver_release", lambda: "580.95.05")
    before = kernel_of(machine, a, u)
    times["sweep"] = 0.5
    rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1)
    assert kernel_of(machine, a, u) == "sweep" != before
    assert list(tuned.winners()) == ["stand-in, driver 580.95.05"]
    for release, kernel in (("590.44.01", before), (None, before), ("580.95.05", "sweep")):
        stand_in.forget()  # as a new process
        monkeypatch.setattr(tuned, "driver_release", lambda release=release: release)
        assert kernel_of(machine, a, u) == kernel
    stand_in.forget()
    monkeypatch.setattr(tuned, "driver_release", lambda: None)
    monkeypatch.setattr(tuned, "driver_version", lambda: 13000)
    assert tuned.card(0) == "stand-in, CUDA 13.0"


OFFSETS = [0, 0, 5, 8, 350, 351, 400, 600]  # seven, none longer than 342


@pytest.mark.parametrize("fastest", ["sweep", "b2p", "b2p, fewer stages", "chain"])
def test_so_it_is_for_sequences(machine, rng, times, fastest):
    a, u = arrays(rng)
    alone, before = kernel_of(machine, a, u), kernel_of(machine, a, u, offsets=OFFSETS)
    times[fastest] = 0.5
    machine.launches.clear()
    found = rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1, offsets=OFFSETS)
    assert set(found) == {"sweep", "b2p", "b2p, fewer stages", "chain"}
    assert {dict(one.launch.macros)["SEQUENCES"] for one in machine.launches} == {"1"}
    kernel = fastest.split(",")[0]
    assert kernel_of(machine, a, u, offsets=OFFSETS) == kernel
    assert dict(machine.launches[-1].launch.macros)["SEQUENCES"] == "1"
    stand_in.forget()  # as a new process
    for same in (OFFSETS, [0, 20, 40, 60, 83, 300, 599, 600]):
        assert kernel_of(machine, a, u, offsets=same) == kernel
    for other in ([0, 300, 600], [0, 16, 32, 48, 64, 300, 500, 600], range(0, 601, 50)):
        assert kernel_of(machine, a, u, offsets=other) == plan_of(a, u, other)
    assert kernel_of(machine, a, u) == alone
    (kind,) = next(iter(tuned.winners().values()))
    assert kind.endswith("full, full, shared, 8 sequences of 512, in units of 1")
    assert before == plan_of(a, u, OFFSETS)


def plan_of(a, u, offsets):
    """Return the kernel that the estimates choose."""
    places = (contiguous(array.dtype, array.shape) for array in (a, u, u))
    solve = Solve(*places, None, 1, Full(), sequences=sequences_of(np.array(offsets)))
    return plan(solve, run.device_of(0)).kernel


def test_solves_that_keep_states_are_of_other_kinds():
    u, parts, last = (contiguous(BFLOAT16, shape) for shape in ((64, 2), (4, 2), (1, 2)))
    plain = Solve(u, u, u, None, 0, Full())
    several = plain._replace(kept=parts), plain._replace(kept=last, every=LAST)
    kinds = [tuned.kind_of(solve) for solve in (plain, *several, several[1]._replace(written=False))]
    added = [kind.removeprefix(kinds[0]) for kind in kinds]
    assert added == ["", ", every 16th state kept", ", last states kept", ", last states alone"]


@pytest.mark.parametrize("window", [Full(), Jagged(16), Jagged(20), Jagged(5, 0)])
def test_each_plan_of_sequences_is_right(machine, rng, window):
    a, u = arrays(rng)
    places = (contiguous(array.dtype, array.shape) for array in (a, u, u))
    solve = Solve(*places, None, 1, window, sequences=sequences_of(np.array(OFFSETS)))
    for name, launch in alternatives(solve, run.device_of(0)).items():
        tuned.keep(0, tuned.kind_of(solve), name)
        run.forget_plans()
        assert kernel_of(machine, a, u, window=window, offsets=OFFSETS) == launch.kernel
        assert machine.launches[-1].launch.macros == launch.macros


def test_one_sequence_is_tuned_as_all_of_time(machine, rng, times):
    a, u = arrays(rng)
    rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1, offsets=[0, 600])
    assert kernel_of(machine, a, u) == "chain"


def test_a_single_kernel_is_not_timed_or_kept(machine, rng, times):
    a, u = arrays(rng)
    assert rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1, window=Uniform(9)) == {"sliding": 0.0}
    assert machine.launches == []
    assert not tuned.winners()


def test_what_is_on_disk_can_be_read_by_people_and_may_be_spoilt(machine, rng, times):
    a, u = arrays(rng)
    derived = kernel_of(machine, a, u)
    rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1)
    path = tuned.folder() / "gpu.json"
    (kept,) = json.loads(path.read_text()).values()
    assert kept == {"bfloat16/bfloat16/bfloat16, 1024x2x16, channels contiguous, full, full, shared": "chain"}
    for text in ("", "[1]", '{"stand-in": 3}', '{"stand-in": {"x": "none"}}'):
        path.write_text(text)
        stand_in.forget()
        assert kernel_of(machine, a, u) == derived
    rf.gpu.tune(on_gpu(a), on_gpu(u), axis=1)
    assert kernel_of(machine, a, u) == "chain"


def test_the_result_of_tensors_and_initial_states(machine, rng, times):
    a, u = arrays(rng, "float32")
    found = rf.gpu.tune(*map(torch_stand_in.tensor, (a, u)), axis=1, x0=0.5)
    assert list(found) == ["chain", "sweep"]
    (kind,) = next(iter(tuned.winners().values()))
    assert kind.endswith("shared, x0")


def mixer_arrays(rng, name="tiles"):
    given = test_mixer.arrays(test_mixer.CASES[name], rng)
    return given, [on_gpu(given[part]) for part in "aqku"]


def mixer_of(machine, given, own):
    """Return the kernel that mixes, having compared its result with the host's."""
    given["x"] = rf.phalanx(*own).get()
    launch = machine.launches[-1].launch
    assert dict(launch.macros)["GATED"] == "1"
    test_mixer.check(given, "jagged:16", launch.kernel)
    return launch.kernel


@pytest.mark.parametrize("fastest", ["sweep", "b2p"])
def test_the_fastest_kernel_of_a_layer_is_launched_from_then_on(machine, rng, times, fastest):
    given, own = mixer_arrays(rng)
    times[fastest] = 0.5
    found = rf.gpu.tune_phalanx(*own)
    assert list(found) == [fastest, "b2p" if fastest == "sweep" else "sweep"]
    assert {dict(one.launch.macros)["GATED"] for one in machine.launches} == {"1"}
    assert mixer_of(machine, given, own) == fastest
    stand_in.forget()  # as a new process
    assert mixer_of(machine, given, own) == fastest
    turned = [own[0].swapaxes(-1, -2), *(array.swapaxes(-2, -3) for array in own[1:])]
    assert rf.gpu.tune_phalanx(*turned, axis=-2) == found
    (kind,) = next(iter(tuned.winners().values()))
    assert kind == "bfloat16/bfloat16/bfloat16, 64x8x16, channels contiguous, jagged:16, full, gates of 2, shared"


def test_of_a_layer_only_what_one_launch_does_is_timed(machine, rng, times):
    _, (a, q, k, v) = mixer_arrays(rng)
    for window in ("jagged:4:2", "uniform:5"):
        assert rf.gpu.tune_phalanx(a, q, k, v, window=window) == {}
    _, one_feature = mixer_arrays(rng, "one feature")
    one_feature[1:3] = (gate[..., :1, :] for gate in one_feature[1:3])  # heads that share gates can't be counted
    assert rf.gpu.tune_phalanx(*one_feature) == {}
    assert rf.gpu.tune_phalanx(a, q, on_gpu(np.ones((2, 60, 2, 16), "f4")), v) == {}  # number types
    assert machine.launches == []
    with pytest.raises(ArrayTypeError, match="q must be on a GPU, to time kernels there, got None"):
        rf.gpu.tune_phalanx(a, None, k, v)
    with pytest.raises(ArrayTypeError, match="v must be on a GPU"):
        rf.gpu.tune_phalanx(a, q, k, v.get())
    with pytest.raises(ShapeError, match="axis must be the third axis of v from the end or the second"):
        rf.gpu.tune_phalanx(a, q, k, v, axis=0)
    with pytest.raises(ShapeError, match="a must have the shape of v"):
        rf.gpu.tune_phalanx(v, q, k, v)
    assert not tuned.winners()


@pytest.fixture
def first(monkeypatch, times):
    """Ask for tuning by the first solve of a kind."""
    monkeypatch.setenv(tuned.ON_FIRST, "1")
    monkeypatch.setattr(tuning, "_alone", set())
    return times


def test_the_first_solve_of_a_kind_times_its_kernels_if_asked_to(machine, rng, first, capsys):
    a, u = arrays(rng)
    assert kernel_of(machine, a, u) == "chain"
    assert [launch.launch.kernel for launch in machine.launches] == ["sweep", "b2p", "b2p", "chain", "chain"]
    told = capsys.readouterr().err
    assert "recfact: timed bfloat16/bfloat16/bfloat16, 1024x2x16" in told
    assert "chain 1000000.0 µs, b2p 2000000.0 µs" in told
    machine.launches.clear()
    assert kernel_of(machine, a, u) == "chain"
    stand_in.forget()  # as a new process
    assert kernel_of(machine, a, u) == "chain"
    assert len(machine.launches) == 2
    assert capsys.readouterr().err == ""


def test_so_do_the_first_sequences_of_a_kind(machine, rng, first, capsys):
    a, u = arrays(rng)
    assert kernel_of(machine, a, u, offsets=OFFSETS) == "chain"
    assert "8 sequences of 512, in units of 1: chain 1000000.0 µs" in capsys.readouterr().err
    machine.launches.clear()
    assert kernel_of(machine, a, u, offsets=OFFSETS) == "chain"
    assert len(machine.launches) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("states", [False, True])
def test_so_does_the_first_solve_for_a_state(machine, rng, first, capsys, states):
    given = [on_gpu(array) for array in arrays(rng)]
    rf.solve(*given, axis=1, return_state=True, states=states)
    said = "last states kept" if states else "last states alone"
    assert f"full, full, shared, {said}: chain 1000000.0 µs" in capsys.readouterr().err
    machine.launches.clear()
    rf.solve(*given, axis=1, return_state=True, states=states)
    assert [one.launch.kernel for one in machine.launches] == ["chain"]


def test_so_does_the_first_layer(machine, rng, first, capsys):
    given, own = mixer_arrays(rng)
    assert mixer_of(machine, given, own) == "b2p"
    assert "gates of 2, shared: b2p 2000000.0 µs, sweep 3000000.0 µs\n" in capsys.readouterr().err
    assert mixer_of(machine, given, own) == "b2p"
    assert [one.launch.kernel for one in machine.launches] == ["sweep", "b2p", "b2p", "b2p"]
    assert capsys.readouterr().err == ""


def test_it_times_nothing_that_this_would_spoil_or_that_has_one_kernel(machine, rng, first, monkeypatch):
    a, u = arrays(rng)
    place = on_gpu(u)
    rf.gpu.solve(on_gpu(a), place, axis=1, out=place)
    kernel_of(machine, a, u, window=Uniform(9))
    kernel_of(machine, a, u, window=Uniform(9))
    wide, many = np.ones((2, 1, 3, 20, 1), "f4"), np.ones((2, 5, 3, 20, 4), "f4")
    rf.solve(on_gpu(wide), on_gpu(many), axis=3)
    monkeypatch.setattr(tuning, "is_captured", lambda: True)
    kernel_of(machine, *arrays(rng, "float32"))
    assert not tuned.winners()


WRONG = {
    "on the host": (lambda: (np.ones(3), np.ones(3)), {}, ArrayTypeError, "u must be on a GPU, to time kernels"),
    "precision": (lambda: (0.5, on_gpu(np.ones(3))), {"precision": "x"}, OptionError, "precision must be"),
    "x0": (lambda: (0.5, on_gpu(np.ones(3))), {"reverse": True, "x0": 1.0}, OptionError, "x0 doesn't go with reverse"),
    "offsets": (lambda: (0.5, on_gpu(np.ones(3))), {"offsets": [0, 2]}, ShapeError, "end with 3"),
    "many axes": (
        lambda: (on_gpu(np.ones((2, 1, 3, 20, 1), "f4")), on_gpu(np.ones((2, 5, 3, 20, 4), "f4"))),
        {"axis": 3},
        ShapeError,
        "solved by one launch to be tuned",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(machine, times, name):
    make, options, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        rf.gpu.tune(*make(), **options)
    assert machine.launches == []


def test_nothing_is_timed_for_no_steps(machine, times):
    u = on_gpu(np.ones((0, 2), BFLOAT16))
    assert rf.gpu.tune(u, u, axis=0) == {}
