"""The warning that a recurrence amplifies more than its number type can resolve."""

import math
import warnings

import numpy as np
from ml_dtypes import finfo

from recfact.arrays import Array
from recfact.errors import GrowthWarning
from recfact.factorizations.norms import absolute_values, row_sums


def warn_of_growth(a: Array) -> None:
    """Warn if the inf-norm of the transfer operator of `a` passes 1/eps of its dtype."""
    if a.dtype == object or len(a) == 0:
        return
    limit = 1 / float(finfo(a.dtype).eps)  # type: ignore[no-untyped-call]
    moduli = absolute_values(a[1:])
    if len(a) <= limit and np.max(moduli, initial=0.0) <= 1:
        return  # a row has at most n entries, none above 1
    norm = float(np.max(row_sums(np.append(0.0, moduli))))
    if norm > limit:
        factor = "more than float64 holds" if math.isinf(norm) else f"about {norm:.3g}"
        warnings.warn(
            f"the recurrence amplifies its inputs by up to {factor} (inf-norm of L), beyond the {limit:.3g} that "
            f"{a.dtype} resolves: small inputs vanish beside large states. The largest |a[1:]| is "
            f"{np.max(moduli):.6g}; use a wider number type, or coefficients of smaller magnitude",
            GrowthWarning,
            stacklevel=3,
        )
