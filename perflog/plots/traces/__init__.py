"""Plots of profiles and traces: the time of devices, kernels and ranges, memory, counters."""
