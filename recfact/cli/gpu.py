"""The command on GPUs: the state of this machine, and the limits of its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from recfact import __version__
from recfact.cli.app import WITHOUT_GPU, app, show
from recfact.cli.options import Json

if TYPE_CHECKING:
    from recfact.gpu.machine import Gpu


@app.command(epilog="Example: recfact gpu --json")
def gpu(as_json: Json = False) -> None:
    """Say whether solves can run on a GPU of this machine, what is missing if not, and how fast they can be at most.

    For each GPU that can be used, kernels are compiled as for a solve. The exit code is 1 if a kernel doesn't compile,
    and 3 if no GPU can be used.
    """
    from rich.text import Text

    from recfact.gpu.machine import check_gpus, this_machine
    from recfact.report.rows import rows_table, to_json

    found = this_machine()
    faults = check_gpus(found.gpus) if found.gpus else []
    versions = {"recfact": __version__, **found.versions}
    if as_json:
        typer.echo(to_json({**found.as_dict(), "versions": versions, "faults": faults}))
    else:
        show(Text("Solves can run on this machine's GPU." if found.reason is None else f"No GPU: {found.reason}"))
        show(Text("; ".join(f"{name} {version or 'not found'}" for name, version in versions.items())))
        if found.gpus:
            show(rows_table([_gpu_row(device) for device in found.gpus]))
        for fault in faults:
            show(Text(f"\n{fault}"))
    if faults:
        raise typer.Exit(1)
    if found.reason is not None:
        raise typer.Exit(WITHOUT_GPU)


def _gpu_row(device: Gpu) -> dict[str, str]:
    from recfact.gpu.machine import SOLVE

    heads, steps, channels = SOLVE
    return {
        "GPU": f"{device.number}: {device.name}",
        "compute capability": f"{device.capability[0]}.{device.capability[1]}",
        "memory": f"{device.memory / 2**30:.0f} GiB",
        "at most": f"{device.bandwidth / 1e9:.0f} GB/s",
        f"{heads} x {steps} x {channels} bfloat16": f"{device.seconds * 1e6:.1f} µs",
        "instructions / KiB": f"{device.instructions:.0f}",
        "solves": "yes" if device.reason is None else "no",
    }
