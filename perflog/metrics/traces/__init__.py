"""Metrics on the timed events of traces."""
