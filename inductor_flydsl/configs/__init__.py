"""What the kernels of an op fix, a file per op: configs, signatures, and which of them ship."""
