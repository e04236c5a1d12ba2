"""The machine: its GPUs with their limits, versions, and whether kernels compile for them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from recfact.errors import DeviceError
from recfact.gpu.availability import driver_version, version_text, why_unavailable
from recfact.gpu.compiler import header_folders
from recfact.gpu.device_arrays import DeviceArray, laid_out
from recfact.gpu.run import scratch_bytes
from recfact.gpu.solves import Solve
from recfact.number_types import FLOAT16, FLOAT32, DType
from recfact.windows import Full, Jagged, Uniform, Window

ISSUED = 4  # warp instructions of a multiprocessor in a cycle
SOLVE = (128, 8192, 16)  # heads, steps, channels of the solve whose least time is shown
# Heads, number type and window: on an H100 each of these solves has a kernel of its own.
COMPILED: tuple[tuple[int, DType, Window], ...] = (
    (128, FLOAT16, Jagged(16)),
    (8192, FLOAT32, Jagged(16)),
    (4, FLOAT32, Full()),
    (8192, FLOAT16, Uniform(64)),
)


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
        Most bytes that memory moves in a second: two for each cycle and each 8 lines of its bus.
    clock : float
        Most cycles of a multiprocessor in a second.
    reason : str or None
        Why solves can't run on it. None if they can.
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
        """The least time for a solve in half precision: that of moving its arrays once."""
        elements = prod(SOLVE)
        return FLOAT16.itemsize * (2 * elements + elements // SOLVE[2]) / self.bandwidth

    @property
    def instructions(self) -> float:
        """Warp instructions that all multiprocessors together issue while memory moves a KiB."""
        return 1024 * ISSUED * self.multiprocessors * self.clock / self.bandwidth


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts that `recfact gpu` shows. Missing versions are None. `reason` is None if solves are possible."""

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
        version = None if cupy is None else cupy.cuda.nvrtc.getVersion()
    except RuntimeError:  # CuPy loads the compiler now
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


def check_gpus(gpus: tuple[Gpu, ...]) -> list[str]:
    """Compile and load the kernels of `COMPILED` on all GPUs that can run solves. Return the failures."""
    import cupy

    faults = []
    for gpu in gpus:
        if gpu.reason is None:
            try:
                with cupy.cuda.Device(gpu.number):
                    for heads, dtype, window in COMPILED:
                        scratch_bytes(_described(heads, dtype, window))
            except DeviceError as error:
                faults.append(f"GPU {gpu.number}: {error}")
    return faults


def _described(heads: int, dtype: DType, window: Window) -> Solve[DeviceArray]:
    """Describe a solve of arrays that needn't exist. Its channels share their coefficients."""
    _, steps, channels = SOLVE
    a, u = laid_out((heads, steps, 1), dtype), laid_out((heads, steps, channels), dtype)
    return Solve(a, u, u, None, 1, window, reverse=False, precision="full")
