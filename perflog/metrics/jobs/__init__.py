"""Metrics of a whole job: its attempts, pauses, slower parts, hangs, and the share of time that counts."""
