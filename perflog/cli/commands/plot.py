"""`perflog plot`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from perflog.cli.commands.analyze import analysing

if TYPE_CHECKING:
    from perflog.output.sheets import Sheet
    from perflog.plots import Plot


def _size(_: click.Context, __: click.Parameter, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text)
    if not found or not all(1 <= float(side) <= 100 for side in found.groups()):
        raise click.BadParameter("two numbers of inches from 1 to 100, as in 8x5")
    return float(found[1]), float(found[2])


@click.command()
@click.argument("run")
@click.argument("kind", required=False)
@click.option("-o", "--output", metavar="FILE", help="PNG, SVG or PDF, by its end.  [default: KIND-RUN.png]")
@click.option("--with", "others", multiple=True, metavar="RUN", help="Draw this run too. May be repeated.")
@click.option("--dpi", type=click.IntRange(20, 1200), default=150, show_default=True, help="Dots per inch of a PNG.")
@click.option("--size", callback=_size, metavar="WxH", help="Width and height in inches.  [default: what it needs]")
@click.option("--store", metavar="STORE", help="The store.  [default: PERFLOG_STORE, or .perflog]")
@analysing
def plot(
    run: str,
    kind: str | None,
    output: str | None,
    others: tuple[str, ...],
    dpi: int,
    size: tuple[float, float] | None,
    store: str | None,
    **given: Any,
) -> None:
    """Draw a KIND of figure of a RUN; without KIND, list the kinds that are possible for it."""
    from perflog import log, plots
    from perflog.output import sheets

    chosen = plots.kind(kind) if kind else None
    if output:
        plots.suffix(output)  # a wrong name is told before the log is read
    logs = [log.find_runs(name, store) for name in (run, *others)]
    for text in dict.fromkeys(text for one in logs for text in one.warnings):
        sheets.warn(text)
    if chosen is None:
        sheets.write([_kinds(plots.possible(*logs, **given))])
        return
    first = logs[0].run_keys[0]
    path = output or f"{chosen.name}-{first.id if len(logs[0]) == 1 else first.sha256[:12]}.png"
    plots.save(chosen(*logs, size=size, **given), path, dpi)
    click.echo(path)


def _kinds(kinds: list[Plot]) -> Sheet:
    from perflog.output import sheets

    return sheets.sheet("kinds", "kind what", [(plot.name, plot.caption) for plot in kinds])
