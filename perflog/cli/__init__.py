"""The command line: a thin twin of the Python functions."""
