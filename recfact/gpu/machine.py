"""What this machine has: its GPUs and what they can reach at most, versions, and whether all kernels compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from recfact.errors import DeviceError
from recfact.gpu.availability import driver_version, version_text, why_unavailable
from recfact.gpu.compiler import header_folders
from recfact.gpu.examples import H100, TARGETS, kinds
from recfact.gpu.figures import SOLVE
from recfact.gpu.modules import function_of
from recfact.gpu.nvrtc import CompileError, compile_launch, compiler
from recfact.gpu.plans import Device

ISSUED = 4  # warp instructions of a multiprocessor in a cycle
HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as the driver describes it.

    Parameters
    ----------
    number : int
        Of the GPU.
    name : str
        As the driver has it.
    capability : tuple of int
        Compute capability.
    multiprocessors : int
        How many there are.
    memory : int
        Bytes.
    bandwidth : float
        Bytes in a second that memory moves at most: two for each cycle and each 8 lines of its bus.
    clock : float
        Cycles of a multiprocessor in a second, at most.
    reason : str or None
        Why solves can't run on it.
    """

    number: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    bandwidth: float
    clock: float
    reason: str | None

    @property
    def seconds(self) -> float:
        """The least time for the solve of the figures: that of moving its arrays once."""
        elements = prod(SOLVE)
        return HALF_BYTES * (2 * elements + elements // SOLVE[2]) / self.bandwidth

    @property
    def instructions(self) -> float:
        """Warp instructions that all multiprocessors together issue while memory moves a KiB."""
        return 1024 * ISSUED * self.multiprocessors * self.clock / self.bandwidth


@dataclass(frozen=True, slots=True)
class Machine:
    """What `recfact gpu` tells: versions are None for what isn't there, `reason` is None if solves are possible."""

    reason: str | None
    versions: dict[str, str | None]
    headers: tuple[str, ...]
    gpus: tuple[Gpu, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        gpus = [
            {**asdict(gpu), "least_seconds": gpu.seconds, "instructions_per_kib": gpu.instructions} for gpu in self.gpus
        ]
        return {"available": self.reason is None, **asdict(self), "gpus": gpus}


def this_machine() -> Machine:
    """Look at this machine."""
    reason = why_unavailable()
    cupy = _cupy()
    driver = driver_version() if cupy is None else cupy.cuda.runtime.driverGetVersion()
    try:
        version = compiler().version if cupy is None else cupy.cuda.nvrtc.getVersion()
    except (CompileError, RuntimeError):
        version = None
    return Machine(
        reason,
        {
            "CuPy": None if cupy is None else cupy.__version__,
            "CUDA of the driver": version_text(driver) if driver else None,
            "CUDA of the compiler": None if version is None else f"{version[0]}.{version[1]}",
        },
        tuple(map(str, header_folders(None if version is None else version[0]))),
        () if cupy is None else _gpus(cupy),
    )


def _cupy() -> Any:
    try:
        import cupy
    except ImportError:
        return None
    return cupy


def _gpus(cupy: Any) -> tuple[Gpu, ...]:
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError:
        return ()
    found = []
    for number in range(count):
        device, properties = cupy.cuda.Device(number), runtime.getDeviceProperties(number)
        attributes = device.attributes  # clocks in kHz
        found.append(
            Gpu(
                number,
                properties["name"].decode(),
                (properties["major"], properties["minor"]),
                attributes["MultiProcessorCount"],
                device.mem_info[1],
                2e3 * attributes["MemoryClockRate"] * attributes["GlobalMemoryBusWidth"] / 8,
                1e3 * attributes["ClockRate"],
                why_unavailable(number),
            )
        )
    return tuple(found)


def check_targets(step: Callable[[str], None]) -> dict[str, dict[str, str | None]]:
    """Compile every kernel for every target with CUDA's compiler from PyPI; no GPU is needed.

    Parameters
    ----------
    step : callable
        Told what comes next.

    Returns
    -------
    dict
        For each target, what the compiler said for each kind of kernel; None where it has nothing to say.

    Raises
    ------
    CompileError
        If the compiler isn't there.
    """
    compiler()
    found: dict[str, dict[str, str | None]] = {}
    for target in TARGETS:
        name = f"sm_{target[0]}{target[1]}"
        step(name)
        found[name] = {}
        for kind, launch in kinds(Device(target, H100.multiprocessors)).items():
            try:
                found[name][kind] = compile_launch(launch, target)[1] or None
            except CompileError as error:
                found[name][kind] = str(error)
    return found


def check_gpus(gpus: tuple[Gpu, ...]) -> list[str]:
    """Compile and load every kernel for those GPUs that solves can run on, as a solve does; return what fails."""
    import cupy

    faults = []
    for gpu in gpus:
        if gpu.reason is None:
            try:
                with cupy.cuda.Device(gpu.number):
                    for launch in kinds(Device(gpu.capability, gpu.multiprocessors)).values():
                        function_of(launch, gpu.number)
            except DeviceError as error:
                faults.append(f"GPU {gpu.number}: {error}")
    return faults
