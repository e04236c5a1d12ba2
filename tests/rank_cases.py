"""What each of several processes does with its piece of a sequence, in a module that they can import without tests."""

import faulthandler
import os
import pickle
import traceback
from copy import deepcopy
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import pytest

import recfact as rf

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")


def run(cases, world, folder):
    """Return the results of each case, a list with one of each rank, or None from a rank that died.

    A case is a function of this module and its options.
    """
    context = get_context("forkserver")  # torch is imported once for all processes
    context.set_forkserver_preload(["torch.distributed", "recfact.torch.context_parallel", "recfact.cpu.engine"])
    (folder / "cases").write_bytes(pickle.dumps(cases))
    processes = [context.Process(target=work, args=(rank, world, str(folder))) for rank in range(world)]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(120)
    finally:
        for process in processes:
            process.kill()
    ends = [folder / str(rank) for rank in range(world)]
    found = [pickle.loads(end.read_bytes()) if end.exists() else [None] * len(cases) for end in ends]
    return [list(results) for results in zip(*found, strict=True)]


def work(rank, world, folder):
    """Run all cases in one process."""
    faulthandler.dump_traceback_later(100, exit=True)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    store, timeout = dist.FileStore(f"{folder}/store", world), timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timeout)
    dist.barrier()  # a process that ends while others connect to it is another fault than those tested
    results = []
    for function, options in pickle.loads(Path(folder, "cases").read_bytes()):
        try:
            results.append(globals()[function](rank, **options))
        except Exception as error:
            results.append((type(error).__name__, str(error), traceback.format_exc()))
    Path(folder, str(rank)).write_bytes(pickle.dumps(results))
    os._exit(0)  # groups that have lost a rank wait for it when they are destroyed


def cut(tensor, lengths, rank, dim):
    """Return the steps of a rank, or all that is shared."""
    if tensor.ndim < -dim or tensor.shape[dim] == 1 != sum(lengths):
        return tensor.detach().clone()
    return tensor.split(lengths, dim)[rank].detach().clone()


def solved(rank, a, u, g, lengths, order=1, state=None, **options):
    """Return the states of a rank and the gradients, up to second order, and the parts of the State."""
    dim = options.get("dim", -1)
    given = [cut(one, lengths, rank, dim).requires_grad_() for one in (a, u)]
    if state is not None:
        window, parts, *rest = state
        leaf = parts.clone().requires_grad_()
        options["state"] = rf.torch.State(window, leaf, *rest)
        given.append(leaf)
    x = rf.torch.context_parallel.solve(*given[:2], **options)
    end = None
    if options.get("return_state"):
        x, end = x
    loss = (x * cut(g, lengths, rank, dim)).sum().real
    if end is not None:
        loss = loss + end.parts.square().sum().real
    grads = torch.autograd.grad(loss, given, create_graph=order == 2, allow_unused=True)
    if order == 2:
        square = sum(one.abs().square().sum() for one in grads if one is not None)
        second = torch.autograd.grad(square, given, allow_unused=True)
        grads = [*grads, *second]
    found = [None if one is None else plain(one) for one in (x, *grads)]
    return found, None if end is None else (plain(end.parts), end.phase)


def plain(tensor):
    """Return the numbers of a tensor, halves as float32."""
    tensor = tensor.detach().resolve_conj()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def counted(rank, a, u, g, lengths, **options):
    """Return how many bytes a rank gave to gathers and sends, in the solve and in its gradient."""
    gather, batch, counts = dist.all_gather, dist.batch_isend_irecv, []

    def all_gather(rows, message, group=None):
        counts.append(("gather", message.nbytes))
        return gather(rows, message, group=group)

    def batch_isend_irecv(calls):
        counts.append(("send", sum(call.tensor.nbytes for call in calls if call.op is dist.isend)))
        return batch(calls)

    dist.all_gather, dist.batch_isend_irecv = all_gather, batch_isend_irecv
    try:
        given = [cut(one, lengths, rank, -1).requires_grad_() for one in (a, u)]
        x = rf.torch.context_parallel.solve(*given, **options)
        forward = len(counts)
        (x * cut(g, lengths, rank, -1)).sum().backward()
    finally:
        dist.all_gather, dist.batch_isend_irecv = gather, batch
    return counts[:forward], counts[forward:]


def layer(rank, x, lengths, options):
    """Return what a layer makes of a piece, and the gradients of its weights, summed over the ranks."""
    torch.manual_seed(0)
    own = deepcopy(rf.torch.Phalanx(x.shape[-1], dtype=x.dtype, group=dist.group.WORLD, **options))
    y = own(cut(x, lengths, rank, -2))
    y.square().sum().backward()
    grads = []
    for parameter in own.parameters():
        dist.all_reduce(parameter.grad)
        grads.append(parameter.grad.numpy())
    return plain(y), grads


def wrong(rank, at, **options):
    """Pass wrong options on one rank."""
    given = {"a": 0.5, "u": torch.ones(2, 3)} | (options if rank == at else {})
    rf.torch.context_parallel.solve(given.pop("a"), given.pop("u"), **given)


def broken(rank, at):
    """Fail in the middle of a solve, on one rank."""
    from recfact.torch import carried

    def fail(*_, **__):
        raise MemoryError("no room")

    kept = carried.solve
    carried.solve = fail if rank == at else kept
    try:
        rf.torch.context_parallel.solve(0.5, torch.ones(3))
    finally:
        carried.solve = kept


def absent(rank, at):
    """Leave a call out on one rank."""
    group = dist.new_group(timeout=timedelta(seconds=2))
    if rank != at:
        rf.torch.context_parallel.solve(0.5, torch.ones(3), group=group)


def dead(rank, at):
    """End one process without a word."""
    if rank == at:
        os._exit(1)
    rf.torch.context_parallel.solve(0.5, torch.ones(3))


def nothing(rank):
    """Return the State after no steps at all."""
    state = rf.torch.State("jagged:4", torch.ones(2, 3), 2)
    x, end = rf.torch.context_parallel.solve(0.5, torch.ones(3, 0), window="jagged:4", state=state, return_state=True)
    return tuple(x.shape), end.parts.tolist(), end.phase


def among(rank, members):
    """Solve in a group of some ranks."""
    group = dist.new_group(members)
    if rank in members:
        return rf.torch.context_parallel.solve(0.5, torch.ones(2), group=group).tolist()
    try:
        rf.torch.context_parallel.solve(0.5, torch.ones(2), group=group)
    except ValueError as error:
        return str(error)


def without_gradients(rank):
    """Return whether the results record gradients that only another rank needs."""
    u = torch.ones(3, requires_grad=rank == 0)
    x = [rf.torch.context_parallel.solve(0.5, u, window=window) for window in ("full", "jagged:2")]
    sum(x).sum().backward()
    with torch.no_grad():
        free = rf.torch.context_parallel.solve(0.5, u).requires_grad
    return [one.requires_grad for one in x], free, None if u.grad is None else u.grad.tolist()
