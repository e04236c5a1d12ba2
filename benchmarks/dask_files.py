"""Time `recfact.dask.solve` on files, through workers of little memory, against a copy and a sum of the same arrays.

    python benchmarks/dask_files.py --folder /data/zarr --gigabytes 16
    python benchmarks/dask_files.py --folder /data/mapped --gigabytes 16 --kind memmap --calls sum chain

The copy reads two arrays and writes two. The sum reads the same two and writes one, as a solve does. Each call starts
with no file in memory, and its time includes that its result is on the disk. The files in the folder are made once and
stay.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from dask.distributed import Client, LocalCluster

import recfact as rf


def made(folder: Path, kind: str, name: str, shape: tuple[int, int], chunk: int) -> Any:
    """Return a new array in a file."""
    if kind == "memmap":
        return np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float64, shape=shape)
    return zarr.create_array(
        folder / f"{name}.zarr", shape=shape, chunks=(1, chunk), dtype=np.float64, compressors=None, overwrite=True
    )


def fill(array: Any, low: float, chunk: int) -> None:
    """Fill an array with random numbers."""
    rng = np.random.default_rng(0)
    for row in range(array.shape[0]):
        for start in range(0, array.shape[1], chunk):
            array[row, start : start + chunk] = rng.uniform(low, 1, chunk)


def part(path: str, block_info: Any = None) -> Any:
    """Read a chunk of a file, as numbers in memory."""
    place = tuple(slice(*ends) for ends in block_info[None]["array-location"])
    return np.array(np.load(path, mmap_mode="r")[place])


class Mapped:
    """A file to write to, which every process maps itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __setitem__(self, place: Any, values: Any) -> None:
        np.load(self.path, mmap_mode="r+")[place] = values


def lazy(folder: Path, kind: str, name: str, shape: tuple[int, int], chunk: int) -> Any:
    """Return a file as a lazy array."""
    if kind == "zarr":
        return da.from_zarr(str(folder / f"{name}.zarr"))
    chunks = ((1,) * shape[0], (chunk,) * (shape[1] // chunk))
    path = str(folder / f"{name}.npy")
    return da.map_blocks(part, path, chunks=chunks, dtype=np.float64, meta=np.empty((0, 0)))


def moved(client: Any) -> dict[str, float]:
    """Return how many gigabytes the workers have read and written: by calls, and from and to the disk.

    Calls leave out what is mapped. The disk counts what was in no memory.
    """

    def own() -> dict[str, int]:
        lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return {name: int(count) for name, count in lines.items()}

    counts = client.run(own).values()
    names = {"calls": ("rchar", "wchar"), "disk": ("read_bytes", "write_bytes")}
    return {kind: sum(one[name] for one in counts for name in both) / 1e9 for kind, both in names.items()}


def settle(folder: Path) -> None:
    """Write all files of a folder to the disk, and forget what the system keeps of them in memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for the files, one for each kind")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of each of coefficients and inputs")
    parser.add_argument("--kind", choices=("zarr", "memmap"), default="zarr")
    parser.add_argument("--calls", nargs="*", choices=tuple(CALLS), default=tuple(CALLS), help="none: only make files")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2GB", help="of a worker")
    given = parser.parse_args()
    chunk, folder, kind = 1 << 22, given.folder, given.kind
    steps = max(chunk, round(given.gigabytes * 1e9 / 8 / 2 / chunk) * chunk)
    shape = (2, steps)  # two sequences, so that the chain has one for each of two workers
    print(f"{shape[0] * steps * 8 / 1e9:.2f} GB of each array, chunks of {chunk * 8 / 1e6:.0f} MB, {kind}", flush=True)
    folder.mkdir(exist_ok=True)
    marks = folder / "made"
    if not marks.exists():
        for name, low in (("a", 0.5), ("u", -1.0)):
            fill(made(folder, kind, name, shape, chunk), low, chunk)
        marks.touch()
    a, u = (lazy(folder, kind, name, shape, chunk) for name in "au")
    with (
        LocalCluster(
            n_workers=given.workers, threads_per_worker=1, memory_limit=given.memory, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(lambda: rf.solve(np.ones(4096), np.ones(4096), x0=1.0, return_state=True))  # compiles
        for name in given.calls:
            results = CALLS[name](a, u)
            files = [(own, made(folder, kind, own, shape, chunk)) for own, _ in zip("xy", results, strict=False)]
            targets = [file if kind == "zarr" else Mapped(folder / f"{own}.npy") for own, file in files]
            settle(folder)
            before, start = moved(client), time.perf_counter()
            da.store(results, targets, lock=False)
            settle(folder)
            taken = time.perf_counter() - start
            by = {one: count - before[one] for one, count in moved(client).items()}
            print(
                f"{name:9} {taken:7.1f} s, {by['calls']:6.2f} GB by calls, {by['disk']:6.2f} GB of the disk", flush=True
            )


CALLS = {
    "copy": lambda a, u: [a, u],
    "sum": lambda a, u: [a + u],
    "chain": lambda a, u: [rf.dask.solve(a, u, method="chain")],
    "carriers": lambda a, u: [rf.dask.solve(a, u, method="carriers")],
}


if __name__ == "__main__":
    with dask.config.set({"distributed.worker.memory.spill": False}):
        main()
