"""`perflog compare`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click
from click.exceptions import Exit

from perflog.cli import options

FORMATS = ("text", "md", "csv", "json", "github-action-benchmark", "bencher")


class Share(click.ParamType[float]):
    """A command-line value: a share as 5% or 0.05."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"([0-9]*\.?[0-9]+)(%?)", str(value).strip())
        if not match:
            self.fail(f"{value!r} is not a share: write 5% or 0.05", param, ctx)
        return float(match[1]) / (100 if match[2] else 1)


class Gate(click.ParamType[tuple[float | None]]):
    """A command-line value: `regression`, or `regression:5%` with the threshold."""

    name = "gate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float | None]:
        gate, colon, share = str(value).partition(":")
        if gate != "regression":
            self.fail(f"{gate!r} is not a gate: write regression, or regression:5%", param, ctx)
        return (Share().convert(share, param, ctx) if colon else None,)


@click.command()
@click.argument("sides", nargs=-1, required=True, metavar="[NAME=]RUN...")
@click.option("--by", metavar="SETTING", help="Compare the values of a setting: each value over all runs is a side.")
@click.option("--match", multiple=True, metavar="SETTING", help="Match the runs of the sides by this setting too.")
@click.option("--ignore", multiple=True, metavar="SETTING", help="Runs that differ in this setting are repeats.")
@options.store
@click.option(
    "--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut on all sides.  [default: detected]"
)
@click.option("--threshold", type=Share(), metavar="SHARE", help="Smallest difference that counts.  [default: 5%]")
@click.option("--fail-on", type=Gate(), metavar="regression[:5%]", help="Exit with 1 on a regression.")
@click.option("--all", "everything", is_flag=True, help="Show all rows and notes.")
@click.option("--format", type=click.Choice(FORMATS), default="text", show_default=True, help="Format of the output.")
def compare(
    sides: tuple[str, ...],
    fail_on: tuple[float | None] | None,
    threshold: float | None,
    everything: bool,
    format: str,
    **option_values: Any,
) -> None:
    """Compare runs with the first one: medians, ratio with its interval, verdict.

    A side is a log, LOG#3, a folder, a glob, a store, a run id or a label. Sides with the same NAME are repeats:
    a=1.log a=2.log a=3.log b=4.log b=5.log b=6.log. With fewer than three runs a side the verdict is exploratory, and
    --fail-on fails only if the whole interval lies beyond the threshold.
    """
    from perflog.analysis import compare as comparing
    from perflog.output import sheets
    from perflog.output.presenters import compare as presenter

    limit = fail_on[0] if fail_on and fail_on[0] is not None else threshold
    option_values |= {} if limit is None else {"threshold": limit}
    comparison = comparing.compare(*sides, **option_values)
    for text in comparison.warnings:
        sheets.warn(text)
    documents: dict[str, Callable[[Any], Any]] = {"json": comparing.Comparison.to_dict, "bencher": comparing.bencher}
    documents |= {"github-action-benchmark": comparing.github_action_benchmark}
    if format in documents:
        click.echo(presenter.document(documents[format](comparison)))
    else:
        sheets.write(list(presenter.comparison(comparison, format, everything)), format)
    if fail_on and comparison.failures:
        for row in comparison.failures:
            sheets.warn(f"gate: {presenter.sentence(row)}")
        raise Exit(1)
