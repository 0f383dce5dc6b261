"""Readers of dumps of PyTorch: the flight recorder and the allocator's snapshots."""
