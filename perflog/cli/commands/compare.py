"""`perflog compare`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.exceptions import Exit

from perflog.cli import completion, options
from perflog.output import terminal

if TYPE_CHECKING:
    from perflog.analysis.compare import Comparison, Gate

_FORMATS = (*options.FORMATS, options.BRIEF, "github-action-benchmark", "bencher")

_KEPT = ("by", "base", "baseline", "match", "ignore", "store", "history", "targets", "warmup", "threshold")
"""Options that change the numbers: the next command repeats them."""


class Share(options.ParamType[float]):
    """A command-line value: a share as 5% or 0.05."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"([0-9]*\.?[0-9]+)(%?)", str(value).strip())
        if not match:
            self.fail(f"{value!r} is not a share: write 5% or 0.05", param, ctx)
        share = float(match[1]) / (100 if match[2] else 1)
        if not match[2] and share >= 1:
            self.fail(f"{value!r} would be {share:.0%}: write {value}% for {share:g} percent", param, ctx)
        if share == 0:
            self.fail("a threshold of 0 reports any scatter as a change: write 1% or more than 0", param, ctx)
        return share


class GateCondition(options.ParamType["Gate"]):
    """A command-line value: `regression`, `regression:5%`, `inconclusive`, or `METRIC:+3%` and `METRIC:-3%`."""

    name = "condition"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Gate:
        from perflog.analysis.compare import Gate

        if isinstance(value, Gate):
            return value
        subject, _, limit = str(value).rpartition(":")
        if value == "inconclusive":
            return Gate(inconclusive=True)
        if value == "regression":
            return Gate()
        if subject == "regression":
            return Gate(threshold=Share().convert(limit, param, ctx))
        if not subject or limit[:1] not in ("+", "-"):
            help = "write regression, regression:5%, inconclusive, METRIC:+3% (it rises) or METRIC:-3% (it falls)"
            self.fail(f"{value!r} is not a gate: {help}", param, ctx)
        return Gate(subject, Share().convert(limit[1:], param, ctx), rises=limit[0] == "+")


@click.command(
    short_help="Show how runs differ, and how sure that is.",
    epilog=options.examples(
        "perflog compare old.txt new.txt",
        "perflog compare main=old.txt main=old2.txt mine=new.txt mine=new2.txt --gate step_time:+2%",
    ),
)
@click.argument("sides", shell_complete=completion.runs, nargs=-1, required=True, metavar="[NAME=]RUN...")
@click.option(
    "--by",
    shell_complete=completion.settings,
    multiple=True,
    metavar="SETTING",
    help="Split the runs by a setting: each of its values is a side. Names the best. May be repeated.",
)
@click.option("--base", metavar="SIDE", help="Side, or value of --by, to compare with.  [default: the first one]")
@click.option(
    "--baseline",
    shell_complete=completion.baselines,
    metavar="NAME",
    help="Compare with this baseline of the store; `perflog baseline` makes one.",
)
@click.option(
    "--match",
    shell_complete=completion.settings,
    multiple=True,
    metavar="SETTING",
    help="Match the runs of the sides by this setting too.",
)
@click.option(
    "--ignore",
    shell_complete=completion.settings,
    multiple=True,
    metavar="SETTING",
    help="Runs that differ in this setting are repeats. A change is judged although `device`, `world_size` or `model` "
    "differs.",
)
@options.store
@click.option(
    "--history",
    shell_complete=completion.runs,
    multiple=True,
    metavar="RUN",
    help="Logs, folders or stores with more repeats of the compared runs. Their run-to-run variation decides which "
    "change is significant.  [default: with one run per side, the stores of the runs]",
)
@options.targets
@click.option(
    "--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut on all sides.  [default: detected]"
)
@click.option("--threshold", type=Share(), metavar="SHARE", help="Smallest relative change that counts.  [default: 1%]")
@click.option(
    "--fail-on",
    "--gate",
    "gates",
    type=GateCondition(),
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 on regression, regression:5%, inconclusive, METRIC:+3% (it rises), METRIC:-3% (it falls).",
)
@click.option(
    "--require",
    multiple=True,
    metavar="METRIC",
    help="Exit with 3 if this metric, or one statistic of it, is not on both sides.",
)
@click.option("--all", "everything", is_flag=True, help="Show all metrics, parts and findings.")
@click.option("--format", type=click.Choice(_FORMATS), default="text", show_default=True, help="Format of the output.")
@options.wide
@options.raw
def compare(
    sides: tuple[str, ...],
    gates: tuple[Gate, ...],
    require: tuple[str, ...],
    threshold: float | None,
    history: tuple[str, ...],
    targets: tuple[options.Target, ...],
    everything: bool,
    format: str,
    **option_values: Any,
) -> None:
    """Compare runs with the first one: the change of each metric with its interval and a verdict.

    A side is a log, LOG#3, a folder, a glob, a store, a run id or a label. Sides with the same NAME are repeats:
    a=1.log a=2.log a=3.log b=4.log b=5.log b=6.log. With one run per side the verdict is exploratory, and a gate fails
    only if the whole interval lies beyond both the threshold and 5 %. A gate that has nothing to judge exits with 3,
    and so does a comparison with a baseline that is missing or has no runs of these settings.
    """
    from perflog.analysis import compare as comparing
    from perflog.analysis.compare.sides import side_names
    from perflog.errors import NothingToCompareError, PerflogError
    from perflog.output import sheets
    from perflog.output.presenters import compare as presenter
    from perflog.output.presenters.compare_brief import comparison_brief
    from perflog.output.presenters.compare_screen import answer_sentences, screen

    gates = (*gates, *(comparing.Gate(metric, required=True) for metric in require))
    smallest = min((g.threshold for g in gates if g.threshold is not None), default=None)
    limit = threshold if threshold is not None else smallest
    option_values |= {} if limit is None else {"threshold": limit}
    option_values |= {"history": history or None, "targets": dict(targets) or None}
    source = click.get_current_context().get_parameter_source("baseline")
    if source is ParameterSource.DEFAULT_MAP and (
        option_values["by"] or option_values["base"] or len(side_names(sides, option_values["store"])) > 1
    ):
        option_values["baseline"] = None  # the baseline of the project is for a single side
    try:
        comparison = comparing.compare(*sides, **option_values)
    except PerflogError as error:
        if format == "json":
            terminal.put(presenter.document(comparing.without_result(str(error), gates)))
        if not gates or not isinstance(error, NothingToCompareError):
            raise
        sheets.warn(f"gate: nothing to compare: {error}")
        raise Exit(comparing.CANNOT_JUDGE) from None
    sheets.warn(*comparison.warnings)
    documents: dict[str, Callable[[Comparison], object]] = {"bencher": comparing.bencher}
    documents |= {
        "json": lambda compared: comparing.with_gates(compared, gates) | {"answer": answer_sentences(compared)}
    }
    documents |= {"github-action-benchmark": comparing.github_action_benchmark}
    if format in documents:
        terminal.put(presenter.document(documents[format](comparison)))
    elif format == options.BRIEF or (format == "text" and not everything):
        words = (*sides, *options.typed(click.get_current_context(), *_KEPT))
        lines = comparison_brief(comparison, words) if format == options.BRIEF else screen(comparison, words)
        terminal.put("\n".join(lines))
    else:
        sheets.write(list(presenter.comparison(comparison, format, everything)), format)
    failures = comparing.failures(comparison, gates)
    for failure in failures:
        sheets.warn(f"gate: {presenter.gate_failure(failure)}")
    if failures:
        raise Exit(comparing.exit_code(failures))
