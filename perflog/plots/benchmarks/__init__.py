"""Plots of benchmarks, sweeps and histories: what many runs measure."""
