"""Windows that cut in every way, and what they keep by definition."""

from fractions import Fraction

import numpy as np

from recfact.factorizations.truncated import JaggedOperator
from recfact.windows import Jagged, Uniform

WINDOWS = (
    Uniform(1),
    Uniform(2),
    Uniform(5),
    Uniform(100),
    Jagged(1, 0),
    Jagged(1),
    Jagged(1, 3),
    Jagged(2),
    Jagged(3, 0),
    Jagged(3),
    Jagged(4, 2),
    Jagged(5, 3),
    Jagged(100),
    Jagged(3, 100),
)
FEW_WINDOWS = (
    Uniform(1),
    Uniform(4),
    Uniform(9),
    Jagged(1, 0),
    Jagged(3, 0),
    Jagged(4),
    Jagged(5),
    Jagged(3, 2),
    Jagged(1, 3),
)


def literal_window(matrix, window):
    """Return `matrix` with zeros outside the window."""
    kept = matrix.copy()
    for i, j in np.ndindex(matrix.shape):
        match window:
            case Uniform(lags):
                inside = i - j < lags
            case Jagged(block, terms):
                inside = i // block - j // block <= terms
        if not inside:
            kept[i, j] = 0
    return kept


def exact_half(n=16, block=4, terms=1):
    """Return the jagged operator of coefficients 1/2, as fractions."""
    return JaggedOperator([Fraction(1, 2)] * n, block, terms)


def norms(operator, relative_to):
    """Return the norm of a truncated operator's error for inputs, or for states."""
    return operator.error_norm if relative_to == "input" else operator.relative_error_norm


def error_matrix(operator, relative_to):
    """Return the matrix of a truncated operator's error for inputs, or for states."""
    return (operator.error_operator() if relative_to == "input" else operator.relative_error_operator()).to_dense()


def next_above_root(bound, square):
    """Check that a bound is the next float above the root of an exact number."""
    assert Fraction(bound) ** 2 >= square
    assert square == 0 or Fraction(float(np.nextafter(bound, 0))) ** 2 < square


def spectral_slack(n):
    """Return how far the 2-norm of an exact n x n matrix in floats may be from its proved bound, relatively.

    n eps for the singular value (Anderson et al., LAPACK Users' Guide, 1999, section 4.9), eps for the entries, and 4
    for the bound, which is the guess of a root finder raised by 2 eps.
    """
    return (n + 5) * 2.0**-52
