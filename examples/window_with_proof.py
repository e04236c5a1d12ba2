"""Choose the window of a gated recurrence for bfloat16, and see the proof hold.

`choose_window` finds how far back a state must look so that bfloat16 can't show the difference, and proves it for all
inputs. `verify` measures the error for your inputs in exact arithmetic.
"""

import numpy as np

import recfact as rf
from recfact import precision as pr

rng = np.random.default_rng(1)
n = 2000
gates = 1 / (1 + np.exp(-rng.normal(1.5, 1.0, n)))  # as a sigmoid makes them
inputs = rng.standard_normal(n)

choice = pr.choose_window(gates, format="bfloat16")
print(choice)

whole = rf.solve(gates, inputs)
cut = rf.solve(gates, inputs, window=choice.window)
lost = np.max(np.abs(whole - cut)) / np.max(np.abs(whole))
print(f"\nlost on these inputs: {lost:.1e} of the largest state, {lost / choice.error:.0%} of what any inputs can lose")

print("\nand with every operation rounded to bfloat16:")
verified = pr.verify(gates, inputs, window=choice.window, format="bfloat16")
print(verified)
