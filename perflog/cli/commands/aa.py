"""`perflog aa`."""

from __future__ import annotations

from typing import Any

import click

from perflog.cli import completion, options
from perflog.cli.commands.compare import Share


@click.command(
    short_help="Measure how often `compare` reports a change where nothing differs.",
    epilog=options.examples("perflog aa --repeats runs", "perflog aa run.txt --trials 200"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, required=True, metavar="RUN...")
@options.store
@click.option(
    "--trials",
    type=click.IntRange(1, 1_000_000),
    default=100,
    metavar="N",
    show_default=True,
    help="Number of random splits of each kind and run.",
)
@click.option("--repeats", is_flag=True, help="Treat all runs as repeats of one configuration.")
@click.option(
    "--threshold", type=Share(), metavar="SHARE", help="Smallest relative difference that counts.  [default: 1%]"
)
@click.option("--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut.  [default: detected]")
@options.print_format
def aa(runs: tuple[str, ...], threshold: float | None, format: str, **option_values: Any) -> None:
    """Measure how often `compare` reports a difference where there is none, and which changes it would find.

    Compares parts of each RUN with other parts of the same run, and repeats with each other. For comparison it also
    counts the false alarms of a Mann-Whitney U test on the steps, which wrongly assumes that steps are independent. The
    run-to-run variation of repeats gives the smallest change that a comparison of 2, 3, 5 or 10 runs per side finds in
    9 of 10 cases, and which number of runs and threshold to use.
    """
    from perflog.analysis import compare as comparing
    from perflog.output import sheets
    from perflog.output.presenters import aa as presenter

    option_values |= {} if threshold is None else {"threshold": threshold}
    written = [presenter.false_positives(comparing.aa(*runs, **option_values), format)]
    if format != "csv":
        del option_values["trials"]
        written.append(presenter.power(comparing.power(*runs, **option_values), format))
    sheets.write(written, format)
