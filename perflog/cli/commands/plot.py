"""`perflog plot`."""

from __future__ import annotations

import re
from typing import Any

import click

from perflog.cli import completion, options
from perflog.output import terminal


def _size(_: click.Context, __: click.Parameter, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text)
    if not match or not all(1 <= float(side) <= 100 for side in match.groups()):
        raise click.BadParameter("width and height in inches, from 1 to 100, as in 8x5")
    return float(match[1]), float(match[2])


@click.command(
    short_help="Draw a plot of a run.",
    epilog=options.examples(
        "perflog plot run.txt steps -o steps.png", "perflog plot old.txt steps --with new.txt -o steps.svg"
    ),
)
@click.argument("run", shell_complete=completion.runs)
@click.argument("kind", shell_complete=completion.plots, required=False)
@click.option("-o", "--output", metavar="FILE", help="File to write: .png, .svg or .pdf.  [default: KIND-RUN.png]")
@click.option(
    "--with",
    "others",
    shell_complete=completion.runs,
    multiple=True,
    metavar="RUN",
    help="Draw this run too. May be repeated.",
)
@click.option(
    "--dpi", type=click.IntRange(20, 1200), metavar="N", default=150, show_default=True, help="Dots per inch of a PNG."
)
@click.option(
    "--size", callback=_size, metavar="WxH", help="Width and height in inches.  [default: as large as needed]"
)
@options.store
@options.metrics
def plot(
    run: str,
    kind: str | None,
    output: str | None,
    others: tuple[str, ...],
    dpi: int,
    size: tuple[float, float] | None,
    store: str | None,
    **option_values: Any,
) -> None:
    """Draw a KIND of plot of a RUN. Without KIND, list the kinds that the run has data for."""
    from perflog import plots
    from perflog.opening import find_runs
    from perflog.output import sheets
    from perflog.plots.drawing.files import check_size

    chosen = plots.kind(kind) if kind else None
    if output:
        plots.suffix(output)  # a wrong name is an error before the log is read
    if chosen and size:
        check_size(output or f"{chosen.name}.png", size, dpi)  # to draw a large figure takes seconds
    logs = [find_runs(name, store) for name in (run, *others)]
    for text in dict.fromkeys(text for log in logs for text in log.warnings):
        sheets.warn(text)
    if chosen is None:
        possible = plots.possible(*logs, **option_values)
        sheets.write([sheets.sheet("kinds", "kind what", [(plot.name, plot.caption) for plot in possible])])
        return
    first = logs[0].run_keys[0]
    path = output or f"{chosen.name}-{first.id if len(logs[0]) == 1 else first.sha256[:12]}.png"
    plots.save(chosen(*logs, size=size, **option_values), path, dpi)
    terminal.put(path)
