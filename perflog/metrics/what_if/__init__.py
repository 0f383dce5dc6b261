"""Replay of the steps of a job without its stragglers."""
