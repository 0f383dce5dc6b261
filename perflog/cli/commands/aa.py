"""`perflog aa`."""

from __future__ import annotations

from typing import Any

import click

from perflog.cli import options
from perflog.cli.commands.compare import Share


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.store
@click.option(
    "--trials", type=click.IntRange(1), default=100, show_default=True, help="Random splits of each kind, of each run."
)
@click.option("--repeats", is_flag=True, help="All runs are repeats of one configuration.")
@click.option("--threshold", type=Share(), metavar="SHARE", help="Least difference that counts.  [default: 5%]")
@click.option("--warmup", type=click.IntRange(0), metavar="N", help="Steps to cut.  [default: found]")
@options.print_format
def aa(runs: tuple[str, ...], threshold: float | None, format: str, **given: Any) -> None:
    """Measure how often `compare` is wrong: compare each RUN's steps with its own, and repeats with each other.

    Beside the gate stands a plain Mann-Whitney U test of the steps, which takes them for independent.
    """
    from perflog.analysis import compare as comparing
    from perflog.output import sheets
    from perflog.output.presenters import compare as presenter

    given |= {} if threshold is None else {"threshold": threshold}
    sheets.write([presenter.false_positives(comparing.aa(*runs, **given), format)], format)
