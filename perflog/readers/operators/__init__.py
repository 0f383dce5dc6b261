"""Readers of recorded operators: PyTorch's execution traces, and tables of a profiler over all ranks."""
