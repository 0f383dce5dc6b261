"""Metrics of GPU telemetry, energy and cost."""
