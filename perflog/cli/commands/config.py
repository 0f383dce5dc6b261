"""`perflog config`."""

from __future__ import annotations

import os

import click

from perflog.cli import options


@click.command(
    short_help="Show the configuration of this folder.",
    epilog=options.examples("perflog config", "perflog config --format json"),
)
@options.print_format
def config(format: str) -> None:
    """Show the configuration of the current folder, and the file that it comes from.

    The file is `perflog.toml`, or `pyproject.toml` with a table [tool.perflog], in this folder or one above. Its keys
    are store, baseline, gates, require, threshold, match, ignore, history and warmup. Nothing in it is executed, an
    unknown key is an error, and options of the command line override it.
    """
    from perflog.cli import config as configuration
    from perflog.output import sheets

    found = configuration.find()
    rows = []
    for name, key in configuration.KEYS.items():
        value = found.values.get(name)
        if name == "gates":
            value = ", ".join(found.gates) or None
        elif name == "store":
            value = os.environ.get("PERFLOG_STORE") or found.store
        elif isinstance(value, list):
            value = ", ".join(value) or None
        rows.append((name, value, key.meaning))
    where = str(found.path) if found.path else None
    if where is None:
        sheets.warn(f"no {configuration.FILE}, and no {configuration.PROJECT} with [tool.perflog], here or above")
    sheets.write([sheets.pairs("config", [("file", where)]), sheets.sheet("keys", "key value meaning", rows)], format)
