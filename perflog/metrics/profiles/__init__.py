"""Metrics of printed profiles: kernels and ranges by name, and snapshots of PyTorch's allocator."""
