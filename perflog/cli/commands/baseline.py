"""`perflog baseline`."""

from __future__ import annotations

import click

from perflog.cli import completion, options
from perflog.output import terminal
from perflog.units import count

_NAME = click.argument("name", shell_complete=completion.baselines, metavar="NAME")
_RUNS = click.argument("runs", shell_complete=completion.runs, nargs=-1, metavar="[RUN...]")


@click.group(short_help="Choose the runs that new ones are compared with.")
def baseline() -> None:
    """Keep baselines in a store: named sets of runs that `perflog compare --baseline NAME` compares new runs with.

    A baseline has the runs that you name, or, if it is rolling, the runs that meet a condition, such as the last 20 of
    branch main. Runs count if they have the settings of the new ones. A change that was accepted begins a new
    level: new runs are compared with the runs since then; earlier ones only show the run-to-run variation.
    """


@baseline.command(
    "set",
    short_help="Make a baseline.",
    epilog=options.examples(
        "perflog baseline set main --where 'branch = main'", "perflog baseline set v1 old.txt old2.txt"
    ),
)
@_NAME
@_RUNS
@click.option("--where", metavar="CONDITION", help="Choose runs now and later: `branch = main and tests = ok`.")
@click.option(
    "--last",
    type=click.IntRange(2),
    default=20,
    metavar="N",
    show_default=True,
    help="Number of latest runs of each configuration that count.",
)
@options.store
def set_baseline(name: str, runs: tuple[str, ...], where: str | None, last: int, store: str | None) -> None:
    """Make a baseline of runs of the store, or replace one of that name.

    RUN is a run id, a label, or a log that was ingested. Conditions compare settings, tags, commit, branch and so on,
    and `ingested`, as `perflog runs --where` does.
    """
    from perflog.analysis.compare import baselines
    from perflog.opening import load

    made = baselines.set_baseline(name, runs, where, last, store)
    _tell(name, len(baselines.members(made, load(store))[-1]))


@baseline.command(
    "list",
    short_help="List the baselines.",
    epilog=options.examples("perflog baseline list", "perflog baseline list --format json"),
)
@options.store
@options.print_format
def list_baselines(store: str | None, format: str) -> None:
    """List the baselines of the store."""
    from perflog.analysis.compare import baselines
    from perflog.opening import load
    from perflog.output import sheets
    from perflog.output.presenters import baselines as presenter

    known, log = baselines.read(store), load(store)
    if not known:
        sheets.warn("there is no baseline: `perflog baseline set NAME RUN...` makes one")
    sheets.write([presenter.list_sheet(known, log)], format)


@baseline.command(
    "show",
    short_help="Show the runs of a baseline.",
    epilog=options.examples("perflog baseline show main", "perflog baseline show main --format csv"),
)
@_NAME
@options.store
@options.print_format
def show(name: str, store: str | None, format: str) -> None:
    """Show the levels and runs of a baseline, the latest first."""
    from perflog.analysis.compare import baselines
    from perflog.opening import load
    from perflog.output import sheets
    from perflog.output.presenters import baselines as presenter

    sheets.write(list(presenter.show_sheets(baselines.get(name, store), load(store))), format)


@baseline.command(
    "accept",
    short_help="Add runs to a baseline, or accept a change.",
    epilog=options.examples(
        "perflog baseline accept main new.log --reason 'fp32 accumulation, 2 % slower'",
        "perflog baseline accept main new.log",
    ),
)
@_NAME
@_RUNS
@click.option(
    "--reason", default="", metavar="TEXT", help="Why the change is accepted: these and later runs are a new level."
)
@options.store
def accept(name: str, runs: tuple[str, ...], reason: str, store: str | None) -> None:
    """Add each RUN to a baseline. With a reason they begin a new level, with which later runs are compared.

    RUN may be left out if the baseline is rolling: the level then begins now.
    """
    from perflog.analysis.compare import baselines
    from perflog.opening import load

    changed = baselines.accept(name, runs, reason, store)
    _tell(name, len(baselines.members(changed, load(store))[-1]), f"level {len(changed.levels)}" if reason else "")


@baseline.command(
    "rm",
    short_help="Remove a baseline, or runs from it.",
    epilog=options.examples("perflog baseline rm main bad.log", "perflog baseline rm main"),
)
@_NAME
@_RUNS
@options.store
def remove(name: str, runs: tuple[str, ...], store: str | None) -> None:
    """Remove a baseline, or take each RUN out of it. The runs stay in the store."""
    from perflog.analysis.compare import baselines
    from perflog.opening import load

    left = baselines.remove(name, runs, store)
    if left is None:
        terminal.put(f"{name}: removed")
    else:
        _tell(name, len(baselines.members(left, load(store))[-1]))


def _tell(name: str, runs: int, level: str = "") -> None:
    """Print how many runs a baseline has now."""
    terminal.put(f"{name}: {f'{level}, ' if level else ''}{count(runs, 'run')}")
