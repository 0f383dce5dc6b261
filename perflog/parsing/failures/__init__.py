"""Failures that a log reports: their kinds, the lines that report them, and which of them came first."""
