"""`perflog analyze`."""

from __future__ import annotations

from typing import Any

import click

from perflog.cli import completion, options
from perflog.cli.commands.overview import print_overview


def _list(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from perflog.output import sheets
        from perflog.output.presenters import metrics as presenter

        sheets.write([presenter.metric_list_sheet()])
        ctx.exit()


@click.command(
    short_help="Compute metrics of a run, each with its formula.",
    epilog=options.examples("perflog analyze run.txt throughput phases", "perflog analyze run.txt steps --format csv"),
)
@click.argument("run", shell_complete=completion.runs)
@click.argument("metrics", shell_complete=completion.metrics, nargs=-1, metavar="[METRIC]...")
@options.store
@options.metrics
@options.targets
@options.gpu_hour
@click.option(
    "--limit", type=click.IntRange(0), metavar="N", help="Rows of each metric; 0 for all.  [default in text: 40]"
)
@click.option("--full", is_flag=True, help="Without a METRIC: compute all that the runs have data for.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the metrics.")
@options.print_format
def analyze(
    run: str,
    metrics: tuple[str, ...],
    store: str | None,
    targets: tuple[options.Target, ...],
    limit: int | None,
    full: bool,
    format: str,
    **option_values: Any,
) -> None:
    """Compute METRICs of a RUN, each with its formula. Without one: the overview, or with --full all metrics."""
    from perflog.metrics import Options
    from perflog.opening import find_runs
    from perflog.output import sheets
    from perflog.output.presenters import metrics as presenter

    log = find_runs(run, store)
    if targets and not metrics:
        metrics = ("time_to_target",)
    if not metrics and not full:
        print_overview(log, (run,), format, **option_values)
        return
    sheets.warn(*log.warnings)
    sheets.write(
        list(
            presenter.metric_sheets(
                log, metrics, Options(targets=dict(targets) or None, **option_values), format, limit
            )
        ),
        format,
    )
