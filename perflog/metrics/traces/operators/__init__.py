"""Metrics of traces by name: kernels, ranges and operators, their work and their efficiency."""
