"""The commands that analyse runs or make new ones. Each has a module of its name, imported when it is asked for."""

from importlib import import_module

import click

NAMES = frozenset(
    (
        "aa analyze baseline ci compact compare completion config demo diagnose export lint mcp overview plot query"
        " regenerate report rm serve track watch"
    ).split()
)
"""Names of the commands of this package."""


def load(name: str) -> click.Command:
    """Return the command of a name."""
    command: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
    return command
