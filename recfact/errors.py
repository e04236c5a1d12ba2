"""Exceptions and warnings of recfact.

Every exception is also the built-in that a NumPy user expects (``ValueError``, ``TypeError``, ``ImportError``), so code
that catches the built-in keeps working.
"""


class RecfactError(Exception):
    """Base of the exceptions that recfact raises for what a caller passed or lacks."""


class ShapeError(RecfactError, ValueError):
    """Shapes, axes or memory layouts that don't fit together."""


class DTypeError(RecfactError, TypeError):
    """A number type that recfact doesn't compute in."""


class ArrayTypeError(RecfactError, TypeError):
    """An array library or container that recfact doesn't take, or a mixture of libraries."""


class OptionError(RecfactError, ValueError):
    """An option outside its range, or options that exclude each other."""


class OptionTypeError(RecfactError, TypeError):
    """An option of a type that it can't be, such as a text for a number of steps."""


class DataFileError(RecfactError, ValueError):
    """A file that can't be read as coefficients or inputs; names the file and the place in it."""


class MissingExtraError(RecfactError, ImportError):
    """An optional package isn't installed; the message says how to install it."""


class DeviceError(RecfactError, RuntimeError):
    """No GPU that recfact can use; the message says what is missing and how to get it."""


class GrowthWarning(RuntimeWarning):
    """The recurrence amplifies its inputs by more than the number type can resolve."""
