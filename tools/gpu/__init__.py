"""What is counted of the GPU kernels without a GPU: their plans, their machine code, and what they move."""
