"""`perflog analyze`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from perflog.cli import options


def metric_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all metrics take."""
    for option in (
        click.option(
            "--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut.  [default: detected]"
        ),
        click.option("--gpu", metavar="NAME", help="The GPU, whose peak gives MFU.  [default: no MFU]"),
        click.option(
            "--peak-tflops",
            "--peak",
            type=float,
            metavar="TFLOP/s",
            help="Dense peak of one GPU in TFLOP/s, instead of --gpu.",
        ),
        click.option("--flops", metavar="ID", help="FLOP convention.  [default: the format's own]"),
    ):
        command = option(command)
    return command


def _list(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from perflog.output import sheets
        from perflog.output.presenters import metrics as presenter

        sheets.write([presenter.metric_list_sheet()])
        ctx.exit()


@click.command()
@click.argument("run")
@click.argument("metrics", nargs=-1, metavar="[METRIC]...")
@options.store
@metric_options
@click.option(
    "--limit", type=click.IntRange(0), metavar="N", help="Rows of each metric; 0 for all.  [default in text: 40]"
)
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the metrics.")
@options.print_format
def analyze(
    run: str, metrics: tuple[str, ...], store: str | None, limit: int | None, format: str, **option_values: Any
) -> None:
    """Compute METRICs of a RUN, each with its formula. By default all that the run has data for."""
    from perflog.log import find_runs
    from perflog.metrics import Options
    from perflog.output import sheets
    from perflog.output.presenters import metrics as presenter

    log = find_runs(run, store)
    for text in log.warnings:
        sheets.warn(text)
    sheets.write(list(presenter.metric_sheets(log, metrics, Options(**option_values), format, limit)), format)
