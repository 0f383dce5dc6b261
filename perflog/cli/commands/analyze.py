"""`perflog analyze`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from perflog.cli import options


def analysing(command: Callable[..., None]) -> Callable[..., None]:
    """The options that all metrics take."""
    for option in (
        click.option("--warmup", type=click.IntRange(0), metavar="N", help="Steps to cut.  [default: found]"),
        click.option("--gpu", metavar="NAME", help="Device whose peak MFU is against.  [default: no MFU]"),
        click.option(
            "--peak-tflops", "--peak", type=float, metavar="TFLOP/s", help="Dense peak of one device, in TFLOP/s."
        ),
        click.option("--flops", metavar="ID", help="FLOP convention.  [default: the format's own]"),
    ):
        command = option(command)
    return command


def _list(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from perflog.output import sheets
        from perflog.output.presenters import metrics as analysis

        sheets.write([analysis.known()])
        ctx.exit()


@click.command()
@click.argument("run")
@click.argument("metrics", nargs=-1, metavar="[METRIC]...")
@options.store
@analysing
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Rows of each; 0 for all.  [default in text: 40]")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the metrics.")
@options.print_format
def analyze(
    run: str, metrics: tuple[str, ...], store: str | None, limit: int | None, format: str, **given: Any
) -> None:
    """Compute METRICs of a RUN, each with its formula; by default all that its tables allow."""
    from perflog import log
    from perflog.metrics import Options
    from perflog.output import sheets
    from perflog.output.presenters import metrics as analysis

    found = log.find_runs(run, store)
    for text in found.warnings:
        sheets.warn(text)
    sheets.write(list(analysis.metrics(found, metrics, Options(**given), format, limit)), format)
