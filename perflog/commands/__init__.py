"""The commands that analyse runs or make new ones, one file each: thin twins of the Python functions."""

from perflog.commands.aa import aa
from perflog.commands.analyze import analyze
from perflog.commands.compare import compare
from perflog.commands.export import export
from perflog.commands.lint import lint
from perflog.commands.plot import plot
from perflog.commands.regenerate import regenerate
from perflog.commands.report import report

ALL = (
    aa,
    analyze,
    compare,
    export,
    lint,
    plot,
    regenerate,
    report,
)
"""All of them; the command line adds them to its own."""
