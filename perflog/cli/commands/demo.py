"""Shows what perflog tells, on runs that ship with it."""

from __future__ import annotations

from shlex import quote

import click

from perflog.cli import options
from perflog.cli.commands.overview import print_overview
from perflog.output import terminal

_RUN = "reference:training_sweep.txt:4"
_SIDES = (_RUN, "reference:training_sweep.txt:6")
_LINES = 11  # of the comparison: with the screen of the run it fits on a terminal


@click.command(
    short_help="Try perflog on runs that ship with it.",
    epilog=options.examples("perflog demo", "perflog demo -o page.html"),
)
@click.option(
    "-o", "--output", metavar="FILE", default="perflog-demo.html", show_default=True, help="The page to write."
)
def demo(output: str) -> None:
    """Show the overview of a run and a comparison, and write this comparison as a page.

    The runs are reference runs of perflog; nothing else is read. Each screen follows the command that prints it.
    """
    from perflog.analysis.compare import compare
    from perflog.opening import find_runs
    from perflog.output.presenters import compare_screen
    from perflog.output.report import report

    _put_command("perflog", _RUN)
    print_overview(find_runs(_RUN), (_RUN,), "text")
    _put_command("perflog compare", *_SIDES)
    for line in compare_screen.screen(compare(*_SIDES), _SIDES, _LINES):
        terminal.put(line)
    report(*_SIDES, output=output)
    terminal.put(f"All of it with plots, on one page: {output}")


def _put_command(command: str, *arguments: str) -> None:
    text = f"$ {command} {' '.join(map(quote, arguments))}"
    terminal.put(terminal.Line(text, bold=len(text)))
