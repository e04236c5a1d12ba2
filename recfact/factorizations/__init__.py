"""The transfer operator, its factorizations and its truncations, over any scalar."""

from recfact.factorizations.algorithm_costs import cost_table
from recfact.factorizations.brent_kung import BrentKung
from recfact.factorizations.hierarchical import Hierarchical
from recfact.factorizations.kogge_stone import KoggeStone
from recfact.factorizations.materialize import materialize
from recfact.factorizations.transfer import TransferOperator, truncate
from recfact.factorizations.truncated import BandedOperator, JaggedOperator

__all__ = [
    "BandedOperator",
    "BrentKung",
    "Hierarchical",
    "JaggedOperator",
    "KoggeStone",
    "TransferOperator",
    "cost_table",
    "materialize",
    "truncate",
]


def __dir__() -> list[str]:
    return __all__
