"""The command line: each command calls one Python function and prints its result."""
