"""Metrics of pipeline parallelism: stages, layers, bubbles and other schedules."""
