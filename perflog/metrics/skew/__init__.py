"""Metrics of uneven work: between ranks, stages, layers and experts."""
