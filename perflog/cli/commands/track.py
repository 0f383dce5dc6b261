"""`perflog track`."""

from __future__ import annotations

import click

from perflog.cli import completion, options
from perflog.cli.commands.compare import Share


@click.command(
    short_help="Show metrics over versions, and since when each changed.",
    epilog=options.examples("perflog track nightly/", "perflog track --by commit --figure step_time"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, metavar="[RUN...]")
@click.option(
    "--by",
    metavar="commit|date|SETTING",
    help="What a version is; `ingested`: commits in the order of their ingestion.  [default: commit or date]",
)
@click.option("--where", metavar="CONDITION", help="Only runs that meet it: `branch = main`.")
@click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="Metric to track; * for any characters. May be repeated."
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="SETTING",
    help="A setting in which runs of one test may differ. May be repeated.",
)
@click.option(
    "--threshold",
    type=Share(),
    default=0.01,
    metavar="SHARE",
    help="Smallest relative change that is reported in a sentence.  [default: 1%]",
)
@click.option("--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut.  [default: detected]")
@click.option("-o", "--output", metavar="FILE", help="Draw the metrics to this file too: .png, .svg or .pdf.")
@options.store
@options.print_format
def track(
    runs: tuple[str, ...],
    by: str | None,
    where: str | None,
    figures: tuple[str, ...],
    ignore: tuple[str, ...],
    threshold: float,
    warmup: int | None,
    output: str | None,
    store: str | None,
    format: str,
) -> None:
    """Show each metric over the versions of a program: levels, changes, and what else changed with them.

    RUN is a store, a folder, or logs; default: the store. Runs of one commit, or of one day, are one version. Runs of
    different settings are different tests, unless a setting changed once and stayed. Eight versions are needed.

    A change that came with another host, GPU or driver is shown as a change of the machine, others as changes of the
    program only where settings show that the machine is the same. A single version far off is an outlier. The last
    version is tested against the level so far; later ones confirm the change, or do not. Changes accepted in a baseline
    are shown with their reason.
    """
    from perflog.analysis.track import track as tracked
    from perflog.output import sheets, terminal
    from perflog.output.presenters import track as presenter
    from perflog.tables.store import default_store

    found = tracked(
        *(runs or (store or default_store(),)),
        by=by,
        where=where,
        figures=figures,
        ignore=ignore,
        store=store,
        warmup=warmup,
        threshold=threshold,
    )
    sheets.warn(*found.warnings)
    if format == "json":
        terminal.put(presenter.as_json(found))
    elif format == "csv":
        sheets.write([presenter.points(found)], format)
    else:
        sheets.write(list(presenter.sheets(found)), format)
    if output:
        presenter.draw(found, output)
        terminal.tell(output)
