"""CUDA's compiler from the packages on PyPI, called where there may be no GPU and no CuPy."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import NamedTuple

from recfact.errors import RecfactError
from recfact.gpu.availability import install_compiler
from recfact.gpu.compiler import header_folders, options_of, source_of
from recfact.gpu.plans import Launch


class CompileError(RecfactError):
    """CUDA's compiler doesn't take a source; the message is what it said."""


class Compiler(NamedTuple):
    """The loaded library, and the version of CUDA that it is of."""

    library: ctypes.CDLL
    version: tuple[int, int]


def library_path() -> Path | None:
    """Return the newest of the compilers among the installed packages for Linux; None if there is none."""
    for folder in header_folders():
        package = folder.parent if folder.parts[-2] != "cuda_runtime" else folder.parent.parent / "cuda_nvrtc"
        for path in sorted(package.glob("lib/libnvrtc.so.*")):
            return path
    return None


@cache
def compiler() -> Compiler:
    """Load the compiler.

    Raises
    ------
    CompileError
        If it isn't among the installed packages.
    """
    path = library_path()
    if path is None:
        raise CompileError(f"CUDA's compiler isn't among the installed packages: pip install {install_compiler(13)}")
    for part in path.parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(part))  # CUDA 13.0's library doesn't look for it in its own folder
    library = ctypes.CDLL(str(path))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return Compiler(library, (major.value, minor.value))


def compile_source(source: str, options: tuple[str, ...], form: str = "CUBIN") -> tuple[bytes, str]:
    """Compile to machine code, or to PTX.

    Parameters
    ----------
    source : str
        CUDA C++.
    options : tuple of str
        All that the compiler takes, the target among them.
    form : {"CUBIN", "PTX"}
        What to make.

    Returns
    -------
    code : bytes
        For the driver, or a disassembler.
    log : str
        What the compiler said: warnings, if any.

    Raises
    ------
    CompileError
        If the compiler isn't installed, or doesn't take the source.
    """
    library, program, size = compiler().library, ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        encoded = [option.encode() for option in options]
        failed = library.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        said = log.value.decode().strip()
        if failed:
            raise CompileError(said)
        getattr(library, f"nvrtcGet{form}Size")(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{form}")(program, code)
        return code.raw, said
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def compile_launch(launch: Launch, capability: tuple[int, int]) -> tuple[bytes, str]:
    """Compile the kernel of a launch for a target as CuPy would, which flushes subnormal float32 numbers to zero."""
    return compile_source(source_of(launch.kernel), (*options_of(launch), *_for("sm", capability)))


def compile_ptx(source: str, options: tuple[str, ...], capability: tuple[int, int]) -> str:
    """Compile to PTX for a target."""
    return compile_source(source, (*options, *_for("compute", capability)), "PTX")[0].rstrip(b"\0").decode()


def _for(target: str, capability: tuple[int, int]) -> tuple[str, ...]:
    includes = tuple(f"-I{folder}" for folder in header_folders(compiler().version[0]))
    return (f"-arch={target}_{capability[0]}{capability[1]}", "-ftz=true", *includes)
