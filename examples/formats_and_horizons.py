"""How far back a recurrence can look in a number format, and what really happens there.

The horizon is the lag at which a product of coefficients falls below the smallest normal number. If the product is
rounded at every step, it may also stop falling. Then inputs from any distance in the past still count.
"""

from fractions import Fraction

from recfact import precision as pr

print(pr.horizon_table(["float32", "float16", "bfloat16", "fp8 e5m2", "e4m3fn"], rho="0.99"))

print("\nin the arithmetic of the format itself")
for name in ("float16", "bfloat16", "fp8 e5m2"):
    print(pr.actual_horizon(name, "0.9"))

mine = pr.FloatFormat.from_bits(exponent=5, fraction=6, name="12 bits of your own")
rho = mine.largest_below_one
print(f"\n{mine.name}: numbers from {mine.smallest_normal:g} to {mine.max:g}, the largest below 1 is {rho}")
print("steps that halve a weight with that coefficient:", pr.horizon(rho, Fraction(1, 2)) + 1)
print("steps that keep it a normal number:", pr.horizon(rho, mine))
