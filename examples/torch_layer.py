"""The recurrence as a differentiable function of PyTorch, on the CPU.

Needs PyTorch: pip install --editable '.[torch]', or its build for CPUs, 2.6 or newer.

Tensors go in and come out without a copy. The gradient of the inputs is the recurrence run backwards, that of the
coefficients one product more. Both are made of differentiable operations again, so derivatives of any order are right.
"""

import torch

import recfact as rf


class Recurrence(torch.autograd.Function):
    """x_i = a_i x_{i-1} + u_i along the first axis, or its transpose x_i = a_{i+1} x_{i+1} + u_i."""

    @staticmethod
    def forward(ctx, a, u, reverse):
        """Return the states."""
        x = rf.solve(a, u, axis=0, reverse=reverse)
        ctx.save_for_backward(a, x)
        ctx.reverse = reverse
        return x

    @staticmethod
    def backward(ctx, grad):
        """Return the gradients of coefficients and inputs."""
        a, x = ctx.saved_tensors
        back = Recurrence.apply(a.conj(), grad, not ctx.reverse)
        earlier, later = (back, x.conj()) if ctx.reverse else (x.conj(), back)
        return torch.cat([torch.zeros_like(earlier[:1]), earlier[:-1]]) * later, back, None


def solve(a, u):
    """Return the states of coefficients and inputs of one shape, differentiably."""
    return Recurrence.apply(a, u, False)


generator = torch.Generator().manual_seed(0)
a = torch.rand(12, 3, dtype=torch.float64, generator=generator, requires_grad=True)
u = torch.randn(12, 3, dtype=torch.float64, generator=generator, requires_grad=True)
print("gradients agree with finite differences:", torch.autograd.gradcheck(solve, (a, u)))
print("second derivatives, too:", torch.autograd.gradgradcheck(solve, (a, u)))
