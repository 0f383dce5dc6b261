"""Failures that a log tells of: their kinds, the lines that tell them, and which of them came first."""
