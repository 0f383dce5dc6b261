"""`perflog mcp`."""

from __future__ import annotations

import sys

import click

from perflog.cli import options
from perflog.errors import UsageError
from perflog.output import terminal


@click.command(
    short_help="Answer programs over MCP, about logs in some folders.",
    epilog=options.examples("perflog mcp", "perflog mcp logs/ --time-limit 120"),
)
@click.argument("folders", nargs=-1, type=click.Path(), metavar="[FOLDER]...")
@click.option(
    "--time-limit",
    type=options.FiniteRange(0.1, 86_400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a call.",
)
def mcp(folders: tuple[str, ...], time_limit: float) -> None:
    """Serve the Model Context Protocol on standard input and output, until the client closes it.

    Tools: overview, diagnose, compare, metrics, query, lines. They only read, and only what is in the FOLDERs.
    [default: the current folder]
    """
    try:
        from perflog.mcp import server
    except ImportError as error:
        help = "pip install 'mcp>=2'"
        raise UsageError("`perflog mcp` needs the MCP SDK (2 or later), which is not installed", help=help) from error
    from perflog.mcp.confinement import Confinement

    roots = Confinement(folders or (".",)).roots
    if sys.stdin.isatty():
        terminal.tell(
            "perflog: an MCP client starts this command and talks to it on standard input; Ctrl-C ends it", err=True
        )
    server.server(roots, time_limit).run("stdio")
