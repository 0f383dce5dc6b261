"""Metrics of traces over time: memory, hardware counters and the timeline."""
