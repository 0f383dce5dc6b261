"""The commands that analyse runs, one file each: thin twins of the Python functions."""

from perflog.commands.analyze import analyze
from perflog.commands.export import export
from perflog.commands.regenerate import regenerate

ALL = (
    analyze,
    export,
    regenerate,
)
"""All of them; the command line adds them to its own."""
