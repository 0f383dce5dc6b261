"""The commands that analyse runs or make new ones, one module each."""

from perflog.cli.commands.aa import aa
from perflog.cli.commands.analyze import analyze
from perflog.cli.commands.compact import compact
from perflog.cli.commands.compare import compare
from perflog.cli.commands.completion import completion
from perflog.cli.commands.export import export
from perflog.cli.commands.lint import lint
from perflog.cli.commands.overview import overview
from perflog.cli.commands.plot import plot
from perflog.cli.commands.query import query
from perflog.cli.commands.regenerate import regenerate
from perflog.cli.commands.report import report
from perflog.cli.commands.rm import rm
from perflog.cli.commands.watch import watch

ALL = (
    aa,
    analyze,
    compact,
    compare,
    completion,
    export,
    lint,
    overview,
    plot,
    query,
    regenerate,
    report,
    rm,
    watch,
)
"""All commands of this package; `main` adds them."""
