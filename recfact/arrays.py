"""Arguments of a caller: array libraries, number types, shapes and axes.

Array libraries are recognised by the type of the array, never by importing them. NumPy arrays, and whatever NumPy can
read as one, are used as they are. NumPy reads the memory of torch CPU tensors by DLPack, without a copy.
`recfact.containers` reads the arrays of other libraries.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from recfact.checks import integer
from recfact.containers import container_of, names, read
from recfact.errors import ArrayTypeError, DTypeError, OptionError, ShapeError, shown
from recfact.number_types import BFLOAT16, FLOAT32, FLOAT64, HALVES, NUMBER_TYPES, accumulator, listed

Array = np.ndarray[Any, Any]

SCALARS = (int, float, complex)
MISSING = ("NAType", "NaTType", "MaskedConstant")  # of pandas and NumPy; they can be multiplied and added


def library_of(value: Any) -> str:
    """Return the library of an array.

    This is 'torch' for a torch tensor on the host, 'gpu' for any array on a GPU, and 'jax', 'pandas', 'polars' or
    'xarray' for the arrays that `recfact.containers` unwraps. It is 'numpy' for anything else that NumPy reads.

    Raises
    ------
    ArrayTypeError
        For a tensor on another kind of device, for an array with a mask, for sparse matrices and operators, and for
        lazy and traced arrays, which hold no numbers yet.
    """
    kind = type(value)
    if kind is np.ndarray or kind in SCALARS or issubclass(kind, np.generic):
        return "numpy"
    if is_tensor(kind):
        _refuse_compiling()
        if value.device.type not in ("cpu", "cuda"):
            raise ArrayTypeError(
                f"recfact runs on the CPU and on NVIDIA GPUs, got a torch tensor on {value.device}; move it with .cpu()"
            )
        return "torch" if value.device.type == "cpu" else "gpu"
    library = container_of(value)
    if kind.__module__.partition(".")[0] == "cupy" or hasattr(value, "__cuda_array_interface__"):
        return "gpu"
    if isinstance(value, np.ma.MaskedArray):
        raise ArrayTypeError("arrays must hold all their numbers, got a masked array; fill it with .filled(value)")
    if hasattr(value, "tocsr"):
        raise ArrayTypeError(f"arrays must be dense, got a sparse {kind.__name__}; densify it with .toarray()")
    if hasattr(value, "rmatvec"):
        raise ArrayTypeError(
            f"expected an array of numbers, got the operator {value!r}; pass its coefficients L.a, write L @ x to "
            "multiply by it, or pass np.asarray(L) if its dense matrix is meant"
        )
    return library or "numpy"


def is_tensor(kind: type[Any]) -> bool:
    """Say whether a type is that of torch's tensors."""
    if kind is np.ndarray:
        return False
    return (kind.__module__ == "torch" and kind.__name__ == "Tensor") or ("torch", "Tensor") in names(kind)


def as_numpy(value: Any, name: str) -> Array:
    """Return `value` as a NumPy array that shares its memory where that is possible.

    Raises
    ------
    ArrayTypeError
        If it can't be read as an array of numbers, as ragged lists, tensors that require gradients and arrays on a GPU.
    DTypeError
        If numbers are missing in it.
    """
    if type(value) is np.ndarray:
        return value
    if type(value) in SCALARS or isinstance(value, np.generic):
        return np.asarray(value)
    library = library_of(value)
    if library == "torch":
        return _from_torch(value, name)
    if library == "gpu":
        raise ArrayTypeError(
            f"{name} must be on the host here, got a {type(value).__name__} on a GPU; copy it with cupy.asnumpy or "
            ".cpu(), or pass all arrays to recfact.solve on the GPU"
        )
    held = read(value, name)
    if held is not value:
        return as_numpy(held, name)
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # __array__ of other libraries raises the last two
        raise ArrayTypeError(f"{name} must be an array or nested lists of equal lengths, got {shown(value)}") from error


def check_scalars(array: Array, name: str) -> Array:
    """Return the array after a check of its objects, if it holds any: they must multiply and add.

    Raises
    ------
    DTypeError
        If one is None, a text or anything else that isn't a number.
    """
    if array.dtype.kind == "O":
        for value in array.flat:
            if isinstance(value, str | bytes | list | tuple) or not hasattr(value, "__mul__"):
                raise DTypeError(f"{name} must be numbers, which multiply and add, got {shown(value)} among them")
            if type(value).__name__ in MISSING:
                raise DTypeError(f"{name} must hold all its numbers, got {shown(value)} among them; fill it")
    return array


def _refuse_compiling() -> None:
    """Raise ArrayTypeError in code that torch compiles: it would replace NumPy's functions by its own."""
    torch = sys.modules.get("torch")  # where there is a tensor, it is there
    if torch is not None and torch.compiler.is_compiling():
        raise ArrayTypeError(
            "torch.compile and torch.export can't look into recfact; call it outside of what they compile, or, without "
            "fullgraph=True, as torch.compiler.disable(recfact.solve)"
        )


def check_tensor(tensor: Any, name: str) -> None:
    """Raise ArrayTypeError for a tensor that is more than numbers in memory here, or has none there."""
    torch = _torch()
    if tensor.layout != torch.strided or tensor.is_nested:
        layout = (
            "a nested one; use .to_padded_tensor()" if tensor.is_nested else f"layout {tensor.layout}; use .to_dense()"
        )
        raise ArrayTypeError(f"{name} must be a dense tensor, got {layout}")
    if torch.jit.is_tracing():
        raise ArrayTypeError(
            f"{name} is traced by torch.jit.trace, which would keep the result as a constant; call recfact outside of "
            "what is traced"
        )
    kind = type(tensor)
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise ArrayTypeError(
            f"{name} is a {kind.__name__}, which doesn't hold its numbers itself; pass a plain torch.Tensor, and call "
            "recfact outside of torch.compile and torch.export"
        )
    if not holds_memory(tensor):
        if _freed(tensor):  # torch can't even write it
            raise ArrayTypeError(f"{name} must hold its numbers, got a tensor whose storage was resized to 0 bytes")
        raise ArrayTypeError(
            f"{name} is a {repr(tensor).partition('(')[0]}, which torch.func (vmap, grad, jvp) puts in place of "
            "a tensor, and which holds no numbers; call recfact outside of torch.func. Instead of vmap, pass arrays of "
            "several axes"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArrayTypeError(
            f"{name} is a torch tensor that requires gradients, which only recfact.torch records; pass "
            f"{name}.detach(), call this under torch.no_grad(), or recfact.torch.solve in place of solve, with dim for "
            "axis"
        )
    if torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        raise ArrayTypeError(
            f"{name} carries a tangent (torch.autograd.forward_ad), which recfact doesn't record; pass its primal"
        )


def holds_memory(tensor: Any) -> bool:
    """Say whether a tensor has numbers in memory, and isn't a placeholder of torch.func."""
    try:
        return tensor.data_ptr() != 0 or not tensor.numel()
    except RuntimeError:  # what most wrappers raise; others answer 0
        return False


def _freed(tensor: Any) -> bool:
    try:
        return bool(tensor.untyped_storage().nbytes() == 0)
    except NotImplementedError:  # wrappers have none
        return False


def _from_torch(tensor: Any, name: str) -> Array:
    _refuse_compiling()
    check_tensor(tensor, name)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    half = tensor.dtype == _torch().bfloat16
    if half:
        tensor = tensor.view(_torch().int16)
    try:
        array = np.from_dlpack(tensor)
    except (RuntimeError, BufferError) as error:
        check_tensor(tensor, name)  # torch.func may have put another for it just now
        raise DTypeError(f"{name} must be of a number type that NumPy has, got {tensor.dtype}; use .float()") from error
    return array.view(BFLOAT16) if half else array


def to_torch(array: Array) -> Any:
    """Return a tensor that shares the memory of `array`."""
    if array.dtype == BFLOAT16:
        return _torch().from_dlpack(array.view(np.int16)).view(_torch().bfloat16)
    return _torch().from_dlpack(array)


def _torch() -> Any:
    import torch

    return torch


def result_dtype(a: Any, u: Any) -> np.dtype[Any]:
    """Return the number type of the states for coefficients `a` and inputs `u` (arrays, or Python scalars).

    This is NumPy's promotion with two exceptions: integers and booleans become float64, and the two half types together
    become float32.

    Raises
    ------
    DTypeError
        If recfact doesn't compute in it.
    """
    if isinstance(a, np.ndarray) and isinstance(u, np.ndarray) and a.dtype == u.dtype and a.dtype in NUMBER_TYPES:
        return native(a.dtype)
    for scalar, other in ((a, u), (u, a)):
        if isinstance(scalar, int | float) and isinstance(other, np.ndarray) and other.dtype in NUMBER_TYPES:
            return native(other.dtype)
    types: list[Any] = [value if isinstance(value, int | float | complex) else value.dtype for value in (a, u)]
    dtype: np.dtype[Any] | None
    try:
        dtype = None if any(_foreign(kind) for kind in types) else np.result_type(*types)
    except TypeError:  # NumPy promotes bfloat16 with few others
        kinds = {FLOAT64 if kind.kind in "biu" else kind for kind in map(np.result_type, types)}
        dtype = FLOAT32 if kinds == set(HALVES) else FLOAT64 if kinds <= NUMBER_TYPES.keys() else None
    if dtype is not None:
        dtype = FLOAT64 if dtype.kind in "biu" else native(dtype)
        if dtype in NUMBER_TYPES or dtype.kind == "O":
            return dtype
    names = " and ".join(str(kind) if isinstance(kind, np.dtype) else type(kind).__name__ for kind in types)
    raise DTypeError(
        f"a and u must be numbers that recfact computes in, got {names}; convert them to {listed('or')}, or to object "
        "for exact scalars"
    )


def _foreign(kind: Any) -> bool:
    """Say whether another package has added this number type to NumPy, such as int4. Its promotion then is odd."""
    return isinstance(kind, np.dtype) and kind.isbuiltin == 2 and kind != BFLOAT16


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype` in the byte order of the machine."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def broadcast_shape(a: Any, u: Any) -> tuple[int, ...]:
    """Return the common shape of coefficients and inputs.

    Raises
    ------
    ShapeError
        If they don't broadcast, or have no axis.
    """
    if a.shape == u.shape and a.shape:
        return tuple(a.shape)
    try:
        shape = np.broadcast_shapes(a.shape, u.shape)
    except ValueError:
        raise ShapeError(
            f"a and u must broadcast against each other by NumPy's rules, got shapes {a.shape} and {u.shape}; "
            "coefficients shared over channels need an axis of size 1"
        ) from None
    except RuntimeError:
        raise ShapeError(
            f"a and u must be of one shape, or have at most 32 axes, got {a.ndim} and {u.ndim} axes; reshape them"
        ) from None
    if not shape:
        raise ShapeError("a and u must have at least one axis for the recurrence, got two scalars; pass sequences")
    return shape


def check_axis(axis: Any, ndim: int) -> int:
    """Return `axis` counted from the front.

    Raises
    ------
    TypeError
        If it isn't an integer.
    ShapeError
        If the array has no such axis.
    """
    number = axis if type(axis) is int else integer(axis, "axis")
    if not -ndim <= number < ndim:
        raise ShapeError(f"must be an axis of the result, {-ndim} to {ndim - 1}", "axis", given=number)
    return number % ndim


def as_operands(a: Any, u: Any, mixed: bool = False) -> tuple[Array, Array, np.dtype[Any]]:
    """Return coefficients and inputs as arrays of one number type, and that type.

    With `mixed`, a half beside float32 or beside the other half keeps its type.
    """
    if type(a) is type(u) is np.ndarray and a.dtype is u.dtype and a.dtype in NUMBER_TYPES:
        return a, u, a.dtype  # what a short call spends its time on otherwise
    arrays = as_numpy(a, "a"), as_numpy(u, "u")
    dtype = result_dtype(
        *(given if type(given) in SCALARS else array for given, array in zip((a, u), arrays, strict=True))
    )
    if mixed and dtype == FLOAT32 and all(array.dtype in (FLOAT32, *HALVES) for array in arrays):
        return *arrays, dtype
    a, u = (converted(array, dtype, name) for array, name in zip(arrays, "au", strict=True))
    if dtype.kind == "O" and a.size and u.size:
        try:
            a.flat[0] * u.flat[0] + u.flat[0]
        except (TypeError, OverflowError) as error:
            raise DTypeError(
                f"a and u must be arrays of numbers that multiply and add, got {shown(a.flat[0])} and "
                f"{shown(u.flat[0])} in them"
            ) from error
        check_scalars(a, "a")
        check_scalars(u, "u")
    return a, u, dtype


def converted(array: Array, dtype: np.dtype[Any], name: str) -> Array:
    """Return an array in another number type, or the array itself if it has that type.

    Raises
    ------
    DTypeError
        If it holds an integer that is too large.
    """
    if array.dtype == dtype:
        return array
    try:
        with np.errstate(over="ignore"):  # an initial state that the type can't hold is infinite in it
            return array.astype(dtype)
    except OverflowError as error:
        raise DTypeError(f"{name} must hold numbers that fit into {dtype}, got {shown(array.flat[0])}") from error


def initial_state(
    x0: Any, shape: tuple[int, ...], dtype: np.dtype[Any], whole: str = "one step of the result"
) -> Array:
    """Return the initial state in the type of the computation. It must fit to `shape`, which `whole` names in words."""
    target = accumulator(dtype)
    if type(x0) is float and target == FLOAT64:
        return np.array(x0)  # what fits everywhere
    state = as_numpy(x0, "x0")
    check_state(state.dtype, state.shape, target, shape, whole)
    own = converted(state, target, "x0")
    return own.copy() if own is state else own


def check_state(
    dtype: np.dtype[Any],
    given: tuple[int, ...],
    target: np.dtype[Any],
    shape: tuple[int, ...],
    whole: str = "one step of the result",
) -> None:
    """Raise an error if an initial state doesn't fit into a number type or doesn't broadcast to the shape of a step."""
    if target.kind != "O" and (dtype.kind == "O" or not np.can_cast(dtype, target, "same_kind")):
        raise DTypeError(f"must fit into {target}, got {dtype}", "x0", advice="convert it, or make u of a wider type")
    check_step(given, shape, whole)


def check_step(given: tuple[int, ...], shape: tuple[int, ...], whole: str = "one step of the result") -> None:
    """Raise ShapeError if an initial state of shape `given` doesn't broadcast to `shape`, which `whole` names."""
    missing = len(shape) - len(given)
    if missing < 0 or any(length not in (1, full) for length, full in zip(given, shape[missing:], strict=True)):
        raise ShapeError(f"must broadcast against {whole}, of shape {shape}, got shape {given}", "x0")


def broadcast_state(x0: Array, shape: tuple[int, ...]) -> Array:
    """Return an initial state as a view in the shape of one step, after `check_step`."""
    check_step(x0.shape, shape)
    return np.broadcast_to(x0, shape)


def check_no_state(x0: Any) -> None:
    """Raise OptionError if there is an initial state, because a recurrence that runs backwards takes none."""
    if x0 is not None:
        required = "doesn't go with reverse, because the last step has no coefficient behind it"
        raise OptionError(required, "x0", advice="add a_{n+1} x_{n+1} to the last input instead")
