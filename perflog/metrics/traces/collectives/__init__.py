"""Metrics of the collectives of traces, matched over the ranks of a job."""
