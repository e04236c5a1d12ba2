"""Results as plain values: a dict of their fields, and rows for a table of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from numbers import Number
from typing import Any, cast

import numpy as np

from recfact.errors import MissingExtraError


class PlainRecord:
    """A dataclass that gives its fields as plain values."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name as plain values. Arrays become nested lists, formats and windows their names."""
        return {name: plain(value) for name, value in _fields(self).items()}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per row, all with the same keys.

        If the first field is an array, there is a row for each of its numbers. A row holds all fields of that shape,
        and the place along each axis. If the first field is a single value, there is a single row.
        """
        values = _fields(self)
        shape = np.shape(next(iter(values.values())))
        alike = {name: value for name, value in values.items() if np.shape(value) == shape}
        return [
            {f"axis {axis}": at for axis, at in enumerate(place)}
            | {name: plain(value[place] if shape else value) for name, value in alike.items()}
            for place in np.ndindex(shape)
        ]

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame.

        Raises
        ------
        MissingExtraError
            If pandas isn't installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("to_pandas needs pandas; install it with: pip install pandas") from None
        rows = self.to_rows()
        return pd.DataFrame(rows, columns=list(rows[0] if rows else self._names()))

    def _names(self) -> Sequence[str]:
        """Return the keys of the rows, even if there are no rows."""
        return [each.name for each in fields(cast(Any, self))]


def _fields(record: Any) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def plain(value: Any) -> Any:
    """Return a value in Python's own types. Values of other types become texts.

    Examples
    --------
    >>> plain({"window": np.arange(2), "error": np.float32(0.5), "holds": None})
    {'window': [0, 1], 'error': 0.5, 'holds': None}
    """
    match value:
        case np.ndarray() | np.generic():
            return plain(value.tolist()) if value.dtype == object else value.tolist()
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case PlainRecord():
            return value.to_dict()
        case None | str() | bool() | int() | float() | complex():
            return value
    return value if isinstance(value, Number) else str(value)
