"""One matrix, three factorizations: a scan is a product of sparse matrices, a blocked algorithm is D + G Z T R.

The entries are fractions, so for these coefficients every equality is exact. The code is the same that runs in floating
point.
"""

from fractions import Fraction

import recfact as rf

a = [Fraction(k, k + 1) for k in range(1, 14)]
L = rf.TransferOperator(a)
scan, tree, blocks = rf.KoggeStone(a), rf.BrentKung(a), rf.Hierarchical(a, block=4)
D, G, Z, T, R = blocks.parts

differences = {
    "Kogge-Stone": scan - L,
    "Brent-Kung": tree - L,
    "blocks": D + G @ Z @ T @ R - L,
    "the inverse": L @ L.inv() - L**0,
    "the Neumann series": sum(L.power(k) for k in range(len(a))) - L,
}
for name, difference in differences.items():
    print(f"{name:18}  largest entry of the difference: {abs(difference.to_dense()).max()}")

print("\nblock 2 hears of block 0 through one number, the carrier: an outer product")
print([[str(entry) for entry in row] for row in blocks.off_diagonal(2, 0).to_dense()])

print("\nwhat each algorithm costs")
print(rf.cost_table(len(a), block=4))
