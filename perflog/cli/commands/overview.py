"""`perflog LOG`: the overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perflog.cli import completion, options
from perflog.output import terminal

if TYPE_CHECKING:
    from perflog.log import Log


@click.command(
    short_help="Show what ran, how fast, why, and what not to trust.",
    epilog=options.examples("perflog overview run.txt", "perflog overview logs/ --format brief"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, required=True, metavar="RUN...")
@options.store
@options.metrics
@options.targets
@options.gpu_hour
@options.answer_format
def overview(
    runs: tuple[str, ...], store: str | None, targets: tuple[options.Target, ...], format: str, **option_values: Any
) -> None:
    """Show on one screen what ran, how fast, where the time goes, what not to trust, and what to run next.

    `perflog LOG` does the same. RUN may also be a folder of logs or a store. `21.3 ms ± 0.4 %` is the median of one run
    and half of its 95 % interval; in a column `± sd`, the standard deviation over the runs of a row.
    """
    from perflog.log import combined
    from perflog.opening import find_runs

    logs = [find_runs(run, store) for run in runs]
    log = logs[0] if len(logs) == 1 else combined(logs)
    print_overview(log, runs, format, targets=dict(targets) or None, **option_values)


def print_overview(log: Log, names: tuple[str, ...], format: str, **option_values: Any) -> None:
    """Print the overview of runs that the reader named by `names`."""
    from perflog.analysis import overview as analysis

    answer = analysis.overview(log, *names, **option_values)
    if format == "text":
        from perflog.output.presenters import overview as presenter

        for line in presenter.screen(answer):
            terminal.put(line)
    elif format == options.BRIEF:
        from perflog.output.presenters.brief import overview_brief

        terminal.put("\n".join(overview_brief(answer)))
    else:
        from perflog.output import sheets
        from perflog.output.presenters import overview_rows

        sheets.warn(*log.warnings)
        sheets.write(list(overview_rows.overview_sheets(answer)), format)
