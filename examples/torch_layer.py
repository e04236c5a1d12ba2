"""The recurrence as a differentiable function of PyTorch, on the CPU.

Needs PyTorch: pip install --editable '.[torch]', or its build for CPUs, 2.6 or newer.

Tensors go in and come out without a copy. The gradient of the inputs is the recurrence run backwards, that of the
coefficients one product more.
"""

import torch

import recfact as rf


class Recurrence(torch.autograd.Function):
    """x_i = a_i x_{i-1} + u_i along the first axis."""

    @staticmethod
    def forward(ctx, a, u):
        """Return the states."""
        x = rf.solve(a.detach(), u.detach(), axis=0)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, grad):
        """Return the gradients of coefficients and inputs."""
        a, x = ctx.saved_tensors
        back = rf.solve(a.detach(), grad, axis=0, reverse=True)
        before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        return back * before, back


generator = torch.Generator().manual_seed(0)
a = torch.rand(20, 3, dtype=torch.float64, generator=generator, requires_grad=True)
u = torch.randn(20, 3, dtype=torch.float64, generator=generator, requires_grad=True)
right = torch.autograd.gradcheck(Recurrence.apply, (a, u))
print("gradients agree with finite differences:", right)
