"""Readers of histories of benchmarks, as other programs keep them by commit."""
