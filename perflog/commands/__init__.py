"""The commands that analyse runs, one file each: thin twins of the Python functions."""

from perflog.commands.analyze import analyze

ALL = (analyze,)
"""All of them; the command line adds them to its own."""
