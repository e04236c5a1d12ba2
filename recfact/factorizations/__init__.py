"""The transfer operator, its factorizations and its truncations, over any scalar."""

from recfact.factorizations.brent_kung import BrentKung
from recfact.factorizations.cost import cost_table
from recfact.factorizations.kogge_stone import KoggeStone
from recfact.factorizations.transfer import TransferOperator

__all__ = ["BrentKung", "KoggeStone", "TransferOperator", "cost_table"]
