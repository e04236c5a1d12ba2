"""The recurrence as a differentiable function of PyTorch, on the CPU.

Needs PyTorch: pip install --editable '.[torch]', or its build for CPUs, 2.6 or newer.

`recfact.torch.solve` has gradients of any order, with a window too. A sequence can come in pieces: a State carries what
the window still sees from one piece to the next. A detached State ends the gradients there.
"""

import torch

import recfact as rf


def solve(a, u):
    """Return the states of a window."""
    return rf.torch.solve(a, u, dim=0, window=rf.Jagged(4))


generator = torch.Generator().manual_seed(0)
a = torch.rand(12, 3, dtype=torch.float64, generator=generator, requires_grad=True)
u = torch.randn(12, 3, dtype=torch.float64, generator=generator, requires_grad=True)
print("gradients agree with finite differences:", torch.autograd.gradcheck(solve, (a, u)))
print("second derivatives, too:", torch.autograd.gradgradcheck(solve, (a, u)))

state, loss = None, 0
for piece in zip(a.split(5), u.split(5), strict=True):
    x, state = rf.torch.solve(*piece, dim=0, window=rf.Jagged(4), state=state, return_state=True)
    loss, state = loss + (x**2).sum(), state.detach()
print("pieces have the loss of the whole:", torch.allclose(loss, (solve(a, u) ** 2).sum()))
