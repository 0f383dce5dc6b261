"""Metrics over many runs: sweeps, scaling, and histories of versions."""
