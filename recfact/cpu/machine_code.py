"""From LLVM's code of a kernel to machine code, and from there to a function for Python.

A kernel takes 64-bit integers and returns one. Python calls it through a few extra instructions. They read the
integers, release the interpreter's lock while the kernel runs, and wrap the result. An array as an argument stands for
the address of its first number. Three arrays as the first argument stand for the address of a table of their addresses.
Asking for addresses in Python would take as long as a short kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from recfact.cpu.translation import function_of
from recfact.cpu.types import Type, int64

ENTRY = "entry"  # the function that Python calls

I32, I64, OBJECT = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()

# Bytes from the start of an object to its type, from that of an array to the address of its numbers, and from that of a
# tuple to its items. They differ between versions of Python: tuples keep their hash since 3.14.
TYPE, DATA, ITEMS = LAYOUT = object.__basicsize__ - 8, object.__basicsize__, tuple.__basicsize__
TABLE = 3  # arrays

FASTCALL = 0x80  # METH_FASTCALL: a call passes an array of arguments, and their number


class Processor:
    """The target processor of code."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.triple = llvm.get_process_triple()
        self.name = llvm.get_host_cpu_name()
        self.features = llvm.get_host_cpu_features().flatten()
        self.machine = llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.name, features=self.features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
        )
        self.jit = llvm.create_lljit_compiler(self.machine)
        self.loaded: list[Any] = []  # code lives as long as its objects here


@cache
def processor() -> Processor:
    """Return the processor of this process."""
    return Processor()


@cache
def writes_whole_lines() -> bool:
    """Return whether one instruction of this processor writes a cache line."""
    return bool(llvm.get_host_cpu_features().get("avx512f"))


def object_code(function: FunctionType, kinds: Sequence[Type]) -> bytes:
    """Return the machine code of a kernel for arguments of some types. Types without parts are left out of its call.

    `loaded` uses its entry.
    """
    here = processor()
    module = ir.Module(function.__name__)
    module.triple = here.triple
    module.data_layout = str(here.machine.target_data)
    add_entry(module, *function_of(here, module, function, kinds, {}))
    code = llvm.parse_assembly(str(module))
    # Kernels unroll their own loops where that is faster, and write one for each case of a test inside. LLVM would do
    # both to every loop, even to those that take a few single steps, and take up to three times as long.
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(here.machine, options)
    builder.getModulePassManager().run(code, builder)
    return here.machine.emit_object(code)  # type: ignore[no-any-return]


def add_entry(module: ir.Module, kernel: ir.Function, result: Type) -> None:
    """Add the function that Python calls (`PyCFunctionFast`). Its `self` is a tuple of the type of arrays."""
    entry = ir.Function(module, ir.FunctionType(OBJECT, [OBJECT, OBJECT.as_pointer(), I64]), ENTRY)
    owner, given, count = entry.args
    b = ir.IRBuilder(entry.append_basic_block())
    nothing = ir.Constant(OBJECT, None)
    table = b.alloca(ir.ArrayType(I64, TABLE))
    with b.if_then(b.icmp_signed("!=", count, ir.Constant(I64, len(kernel.args))), likely=False):
        called(b, "PyErr_BadArgument", I32)
        b.ret(nothing)
    array, several = field(b, owner, ITEMS), field(b, owner, TYPE)
    first, *others = (b.load(b.gep(given, [ir.Constant(I64, place)])) for place in range(len(kernel.args)))
    read = integer_of(module)
    is_table = b.icmp_unsigned("==", field(b, first, TYPE), several)
    is_table = b.and_(is_table, b.icmp_unsigned("==", field(b, first, DATA), ir.Constant(I64, TABLE)))
    with b.if_else(is_table) as (yes, no):
        with yes:
            for place in range(TABLE):
                item = b.inttoptr(field(b, first, ITEMS + 8 * place), OBJECT)
                b.store(b.call(read, [item, array]), b.gep(table, [ir.Constant(I64, 0), ir.Constant(I64, place)]))
            start, whole = b.ptrtoint(table, I64), b.block
        with no:
            number, single = b.call(read, [first, array]), b.block
    head = b.phi(I64)
    head.add_incoming(start, whole)
    head.add_incoming(number, single)
    numbers = [head, *(b.call(read, [value, array]) for value in others)]
    with b.if_then(b.icmp_unsigned("!=", called(b, "PyErr_Occurred", OBJECT), nothing), likely=False):
        b.ret(nothing)
    state = called(b, "PyEval_SaveThread", OBJECT)
    returned = b.call(kernel, numbers)
    called(b, "PyEval_RestoreThread", ir.VoidType(), state)
    b.ret(called(b, "PyLong_FromLongLong", OBJECT, returned if result == int64 else ir.Constant(I64, 0)))


def integer_of(module: ir.Module) -> ir.Function:
    """Return a function that reads an argument. It takes the type of arrays as well."""
    read = ir.Function(module, ir.FunctionType(I64, [OBJECT, I64]), "integer_of")
    read.linkage = "internal"
    read.attributes.add("noinline")
    value, array = read.args
    b = ir.IRBuilder(read.append_basic_block())
    with b.if_then(b.icmp_unsigned("==", field(b, value, TYPE), array)):
        b.ret(field(b, value, DATA))
    b.ret(called(b, "PyLong_AsLongLong", I64, value))
    return read


def field(b: Any, of: Any, offset: int) -> Any:
    """Return a word of an object."""
    return b.load(b.bitcast(b.gep(of, [ir.Constant(I64, offset)]), I64.as_pointer()))


def called(b: Any, name: str, returned: ir.Type, *arguments: Any) -> Any:
    """Call a function of Python's C interface."""
    kind = ir.FunctionType(returned, [argument.type for argument in arguments])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), arguments)


class Method(ctypes.Structure):
    """`PyMethodDef`: Python's description of a function in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


def loaded(code: bytes, name: str) -> Callable[..., Any]:
    """Return machine code of a kernel as a function for Python. Raises RuntimeError if it isn't such code."""
    here = processor()
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(ENTRY)
    library = builder.link(here.jit, f"{name}_{len(here.loaded)}")
    method = Method(name.encode(), library[ENTRY], FASTCALL, None)
    here.loaded.append((library, method))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(method), (np.ndarray,), None)  # type: ignore[no-any-return]
