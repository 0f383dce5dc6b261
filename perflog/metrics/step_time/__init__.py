"""Metrics of the time of a step: how long, how fast, which parts, and what could be saved."""
