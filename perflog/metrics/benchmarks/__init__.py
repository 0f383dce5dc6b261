"""Metrics of benchmarks: cases of a table, collectives by size, pairs of nodes, serving."""
