"""Time `recfact.dask.solve` on files, through workers of little memory, against adding the same arrays.

    python benchmarks/dask_files.py --gigabytes 16 --folder /data --workers 2 --memory 2GB

The sum reads the same two arrays and writes one, as a solve does. Prints a row for each kind of file and each method.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
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
        folder / f"{name}.zarr", shape=shape, chunks=(1, chunk), dtype=np.float64, compressors=None
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


def moved(client: Any) -> int:
    """Return how many bytes the workers have read and written by calls, which leaves out what is mapped."""

    def own() -> int:
        lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(lines["rchar"]) + int(lines["wchar"])

    return sum(client.run(own).values())


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of each of coefficients and inputs")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2GB", help="of a worker")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    chunk = 1 << 22
    steps = max(chunk, round(given.gigabytes * 1e9 / 8 / 2 / chunk) * chunk)
    shape = (2, steps)  # two sequences, so that the chain has one for each of two workers
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    print(f"{shape[0] * steps * 8 / 1e9:.2f} GB of each array, chunks of {chunk * 8 / 1e6:.0f} MB")
    try:
        for kind in ("zarr", "memmap"):
            for name, low in (("a", 0.5), ("u", -1.0)):
                fill(made(folder, kind, name, shape, chunk), low, chunk)
            a, u = (lazy(folder, kind, name, shape, chunk) for name in "au")
            made(folder, kind, "x", shape, chunk)
            target = zarr.open_array(folder / "x.zarr") if kind == "zarr" else Mapped(folder / "x.npy")
            calls = {
                "sum": lambda a=a, u=u: a + u,
                **{
                    method: lambda a=a, u=u, method=method: rf.dask.solve(a, u, method=method)
                    for method in ("chain", "carriers")
                },
            }
            with (
                LocalCluster(
                    n_workers=given.workers, threads_per_worker=1, memory_limit=given.memory, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                client.run(lambda: rf.solve(np.ones(4096), np.ones(4096), x0=1.0, return_state=True))  # compiles
                best: dict[str, float] = {}
                for _ in range(given.rounds):
                    for name, call in calls.items():
                        before, start = moved(client), time.perf_counter()
                        da.store(call(), target, lock=False)
                        taken = time.perf_counter() - start
                        best[name] = min(best.get(name, taken), taken)
                        gigabytes = (moved(client) - before) / 1e9
                        print(
                            f"{kind:7} {name:9} {taken:7.2f} s  {best[name] / best['sum']:5.2f} of the sum  "
                            f"{gigabytes:6.2f} GB by calls",
                            flush=True,
                        )
            for left in folder.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    with dask.config.set({"distributed.worker.memory.spill": False}):
        main()
