"""Exceptions and warnings of recfact.

Every exception is also the built-in that a NumPy user expects (``ValueError``, ``TypeError``, ``IndexError``, ...). So
code that catches the built-in keeps working.

An exception holds the parts of its message: the argument at fault, what was required of it, the value given and what to
do. So a command, for example, can write the same message with the names of its own options.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

UNSAID: Any = object()  # a value that None can't stand for: None may be what was given


def shown(value: Any, most: int = 60) -> str:
    """Return the text for a value in a message: its repr, shortened if it is long."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except Exception:  # integers of more than 4300 digits, arrays that are deleted, what isn't made yet
        return f"a value of type {type(value).__name__} that can't be written"
    return text if len(text) <= most + 3 else f"{text[:most]}..."


class RecfactError(Exception):
    """Base of the exceptions that recfact raises for a wrong argument or a missing package or device.

    Parameters
    ----------
    required : str
        What was required. It follows the name of the argument. If no argument is named, it is the whole message.
    argument : str, optional
        Name of the argument at fault.
    given : object, optional
        The value that it has.
    advice : str, optional
        What to do.
    instead : dict, optional
        Arguments to pass instead. The advice begins with them.

    Examples
    --------
    >>> error = OptionError("must be at least 1", "block", given=0, advice="or leave it out", instead={"block": 16})
    >>> print(error)
    block must be at least 1, got 0; pass block=16, or leave it out
    >>> print(error.sentence(name=lambda argument: f"--{argument}", sign=" "))
    --block must be at least 1, got 0; pass --block 16, or leave it out
    """

    def __init__(
        self,
        required: str = "",
        argument: str = "",
        *,
        given: Any = UNSAID,
        advice: str = "",
        instead: Mapping[str, Any] | None = None,
    ) -> None:
        # BaseException's __new__ keeps the arguments, and torch.compile, which may follow this, can't follow super().
        self.required, self.argument, self.given, self.advice = required, argument, given, advice
        self.instead = dict(instead or {})

    def sentence(self, name: Callable[[str], str] = str, value: Callable[[Any], str] = shown, sign: str = "=") -> str:
        """Return the message. `name` gives the names of arguments in it, and `value` writes their values."""
        subject = f"{name(self.argument)} " if self.argument else ""
        given = "" if self.given is UNSAID else f", got {self._written(value)}"
        passed = " and ".join(f"{name(key)}{sign}{value(item)}" for key, item in self.instead.items())
        advice = ", ".join(filter(None, [passed and f"pass {passed}", self.advice]))
        return subject + self.required + given + (advice and f"; {advice}")

    def _written(self, value: Callable[[Any], str]) -> str:
        return value(self.given)

    def __str__(self) -> str:
        return self.sentence()


class ShapeError(RecfactError, ValueError):
    """Shapes, axes or memory layouts that don't fit together."""


class DTypeError(RecfactError, TypeError):
    """A number type in which recfact doesn't compute."""


class ArrayTypeError(RecfactError, TypeError):
    """An array library or container that recfact can't take, or a mixture of libraries."""


class OptionError(RecfactError, ValueError):
    """An option outside its range, or options that exclude each other."""


class OptionTypeError(RecfactError, TypeError):
    """An option of a wrong type, such as a text for a number of steps. The message names the type."""

    def _written(self, value: Callable[[Any], str]) -> str:
        if isinstance(self.given, bool):
            return f"the boolean {self.given}"
        return f"{super()._written(value)} of type {type(self.given).__name__}"


class PositionError(RecfactError, IndexError):
    """A row or column that an operator doesn't have."""


class DataFileError(RecfactError, ValueError):
    """A file that can't be read as coefficients or inputs. The message names the file and the place in it."""


class MissingExtraError(RecfactError, ImportError):
    """An optional package isn't installed. The message says how to install it."""


class DeviceError(RecfactError, RuntimeError):
    """There is no GPU that recfact can use. The message says what is missing and how to get it."""


class RankError(RecfactError, RuntimeError):
    """Processes that solve a sequence together don't agree, or one of them failed. The message says which, and how."""


class GrowthWarning(RuntimeWarning):
    """The recurrence amplifies its inputs by more than the number type can resolve."""
