"""`perflog analyze`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from perflog import options


def analysing(command: Callable[..., None]) -> Callable[..., None]:
    """The options that all metrics take."""
    for option in (
        click.option("--warmup", type=click.IntRange(0), metavar="N", help="Steps to cut.  [default: found]"),
        click.option("--gpu", metavar="NAME", help="Device whose peak MFU is against.  [default: no MFU]"),
        click.option("--peak", type=float, metavar="TFLOP/s", help="Dense peak of one device, instead of the table's."),
        click.option("--flops", metavar="ID", help="FLOP convention.  [default: the format's own]"),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("run")
@click.argument("metrics", nargs=-1, metavar="[METRIC]...")
@options.store
@analysing
@options.print_format
def analyze(run: str, metrics: tuple[str, ...], store: str | None, format: str, **given: Any) -> None:
    """Compute METRICs of a RUN, each with its formula; by default all that its tables allow."""
    from perflog import analysis, log, report
    from perflog.metrics import Options

    found = log.find(run, store)
    for text in found.warnings:
        report.warn(text)
    report.write(list(analysis.metrics(found, metrics, Options(**given), format)), format)
