"""The GPU engine: kernels in CUDA C++, the plan of their launches, and their compilation at run time."""
