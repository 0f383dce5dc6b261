"""Metrics of traces. Exposed communication: device_time. Waiting in collectives and stragglers: collective_wait."""
