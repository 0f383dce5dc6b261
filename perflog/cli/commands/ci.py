"""`perflog ci`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from perflog.cli import completion, options
from perflog.cli.commands.compare import GateCondition, Share
from perflog.errors import PerflogError
from perflog.output import terminal

if TYPE_CHECKING:
    from perflog.analysis.compare import Gate
    from perflog.ci.gate import GateRun

_NAME = click.option("--name", default="gate", show_default=True, metavar="NAME", help="Name of the gate.")
_KEEPS = ("auto", "yes", "no")


@click.group(short_help="Run a gate in CI: judge a change, comment on its pull request, keep the baseline.")
def ci() -> None:
    """Run a gate in continuous integration.

    `gate` judges the logs of a change and writes a summary, `comment` writes the summary to the pull request, `restore`
    and `keep` fetch and save the store. docs/ci.md has recipes for GitHub Actions, GitLab and a shell.
    """


@ci.command(
    short_help="Judge the logs of a change.",
    epilog=options.examples(
        "perflog ci gate 'logs/*.txt' --baseline main", "perflog ci gate new.txt --base old.txt --summary summary.md"
    ),
)
@click.argument("logs", shell_complete=completion.files, nargs=-1, required=True, metavar="LOG...")
@click.option(
    "--base",
    "base_logs",
    multiple=True,
    metavar="LOG",
    help="Log of the base, run in alternation with the change. May be repeated.  [default: the baseline is the base]",
)
@click.option(
    "--baseline",
    default="main",
    shell_complete=completion.baselines,
    metavar="NAME",
    show_default=True,
    help="Compare with this baseline of the store.",
)
@options.store
@click.option(
    "--gate",
    "--fail-on",
    "gates",
    type=GateCondition(),
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 on regression, regression:5%, inconclusive, METRIC:+3% (it rises), METRIC:-3% (it falls).  "
    "[default: regression]",
)
@click.option("--require", multiple=True, metavar="METRIC", help="Exit with 3 if this metric is not on both sides.")
@click.option(
    "--may-lack",
    multiple=True,
    metavar="METRIC",
    help="A metric that the change may lack. Exit with 3 if it lacks another metric that all runs of the base have.",
)
@click.option(
    "--runs", "least_runs", type=click.IntRange(1), default=1, metavar="N", help="Exit with 3 if fewer runs are read."
)
@click.option("--match", multiple=True, metavar="SETTING", help="Match the runs of the sides by this setting too.")
@click.option("--ignore", multiple=True, metavar="SETTING", help="Runs that differ in this setting are repeats.")
@click.option(
    "--history", multiple=True, metavar="RUN", help="Logs, folders or stores with more repeats of the compared runs."
)
@click.option(
    "--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut on all sides.  [default: detected]"
)
@click.option("--threshold", type=Share(), metavar="SHARE", help="Smallest relative change that counts.  [default: 1%]")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A setting of the runs that no log prints.")
@click.option(
    "--keep",
    type=click.Choice(_KEEPS),
    default="auto",
    show_default=True,
    help="Whether runs that pass join the baseline; auto: runs of the default branch.",
)
@click.option(
    "--accept",
    default="",
    metavar="TEXT",
    help="Why the change is accepted: kept runs begin a new level of the baseline. The exit code does not change.",
)
@_NAME
@click.option("--summary", "summary_file", metavar="FILE", help="Markdown summary to write, whatever the exit code.")
@click.option("--page", metavar="FILE", help="HTML page to write: a report on the compared runs.")
def gate(
    gates: tuple[Gate, ...],
    require: tuple[str, ...],
    threshold: float | None,
    tags: tuple[str, ...],
    keep: str,
    name: str,
    summary_file: str | None,
    page: str | None,
    **values: Any,
) -> None:
    """Judge the logs of a change: 0 passed, 1 a gate failed, 3 the gate cannot judge.

    Each LOG is a file, a folder or a glob. The logs are ingested with commit, branch and job, and compared with a
    baseline, or with the logs of --base. A baseline that is missing, other settings, a run that ended early, a loss
    that is NaN and a metric that vanished each have an outcome of their own. None of these passes.

    Runs of the default branch that pass join the baseline; the first ones make it. In GitHub Actions the result is also
    in annotations, in the summary of the step, and in its outputs `outcome`, `exit-code` and `kept`.
    """
    from perflog.analysis.compare import CANNOT_JUDGE, Gate
    from perflog.ci import annotations, systems
    from perflog.ci.gate import GateTask, judge
    from perflog.ci.summary import summary, unfinished
    from perflog.provenance import parse_tags

    job = systems.this_job()
    is_kept = keep == "yes" or (keep == "auto" and job.is_main)
    _write(summary_file, unfinished(name, job))
    named = {name: values.pop(name) for name in ("match", "ignore", "history", "warmup")}
    named["history"] = named["history"] or None
    every_gate = [*(gates or (Gate(),)), *(Gate(metric, required=True) for metric in require)]
    limits = [gate.threshold for gate in every_gate if gate.threshold is not None]
    limit = threshold if threshold is not None else min(limits, default=None)
    named |= {} if limit is None else {"threshold": limit}
    task = GateTask(gates=every_gate, options=named, tags=parse_tags(tags), keep=is_kept, **values)
    is_github = job.system == "github"
    with annotations.no_commands(is_github), _failures(CANNOT_JUDGE):
        run = judge(task)
        written = summary(run.outcome, name, run.comparison, run.gates, run.kept, job, run.base_dates)
        _write(summary_file, written)
        _tell(run, name)
    if is_github:
        for line in annotations.outcome_commands(run.outcome, f"perflog {name}"):
            terminal.put(line)
        annotations.add_to_step_summary(written)
        told = {"outcome": run.outcome.kind, "exit-code": str(run.outcome.code)}
        annotations.set_outputs(told | {"kept": "true" if run.has_changed else "false"})
    if page and run.logs:
        with annotations.no_commands(is_github), _failures(run.outcome.code):
            _write_page(run, page)
    if run.outcome.code:
        raise Exit(run.outcome.code)


def _write(file: str | None, markdown: str) -> None:
    from perflog.files.whole_files import whole_file

    if file:
        with whole_file(file) as draft:
            draft.write_text(markdown, encoding="utf-8")


def _write_page(run: GateRun, path: str) -> None:
    """Write the page. An error of it does not change the verdict."""
    from perflog.ci.gate import write_page
    from perflog.output import sheets

    try:
        write_page(run, path)
    except PerflogError as error:
        sheets.warn(f"no page: {error}")


@contextmanager
def _failures(code: int) -> Iterator[None]:
    """End with an exit code where perflog itself fails: the exit code of Python would say that a gate failed."""
    try:
        yield
    except (PerflogError, OSError, KeyboardInterrupt, Exit):
        raise
    except Exception:  # noqa: BLE001  # whatever it is, it is printed
        import traceback

        terminal.tell(traceback.format_exc(), err=True)
        raise Exit(code) from None


def _tell(run: GateRun, name: str) -> None:
    """Print the comparison, what the gate says and what is kept."""
    from perflog.output.presenters import compare_screen

    lines = [f"warning: {text}" for text in run.warnings]
    if run.comparison is not None:
        lines += compare_screen.screen(run.comparison, ())[:-1]
    outcome = run.outcome
    lines += [f"{name}: {outcome.title} (exit code {outcome.code})", *(f"  {text}" for text in outcome.reasons)]
    lines += [text for text in (outcome.advice, run.kept) if text]
    for line in lines:
        terminal.put(line)


@ci.command(
    short_help="Write a summary to the pull request.",
    epilog=options.examples("perflog ci comment summary.md", "perflog ci comment summary.md --name nightly"),
)
@click.argument("file", shell_complete=completion.files)
@_NAME
@click.option(
    "--author",
    default="",
    metavar="NAME",
    help="Author of the comment, if not github-actions[bot] or the owner of the GitLab token.",
)
def comment(file: str, name: str, author: str) -> None:
    """Write a summary to the pull request or merge request that this job is for, and update it the next time.

    The token is GITHUB_TOKEN on GitHub; GITLAB_TOKEN, else CI_JOB_TOKEN, on GitLab. A token that may not write, as in a
    pull request from a fork, is reported and is not an error. A server that fails is tried four times; then the exit
    code is 3.
    """
    from perflog.ci import comments
    from perflog.ci.summary import unfinished
    from perflog.ci.systems import this_job

    job = this_job()
    try:
        body = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        body = unfinished(name, job)
    to = comments.conversation(job, author)
    if isinstance(to, str):
        terminal.put(f"no comment: {to}")
        return
    try:
        done = comments.put_comment(to, body, name)
    except comments.ReadOnlyError as error:
        terminal.put(f"no comment: {' '.join(str(error).split())}")
        return
    terminal.put(f"comment {done}")


@ci.command(
    short_help="Fetch the store that has the baseline.",
    epilog=options.examples("perflog ci restore branch:perflog", "perflog ci restore store.zip --store main.store"),
)
@click.argument("place", metavar="PLACE")
@options.store
def restore(place: str, store: str | None) -> None:
    """Fetch the store from PLACE: branch:NAME of the git repository, or the address or path of a .zip file.

    If no store is saved there yet, the exit code is 0 and no store is made. If PLACE cannot be reached, it is 3.
    """
    from perflog.ci import kept_store
    from perflog.tables.store import default_store

    folder = os.fspath(store or default_store())
    found = kept_store.restore(place, folder)
    terminal.put(f"{folder}: restored from {place}" if found else f"nothing is kept at {place} yet")


@ci.command(
    short_help="Keep the store that has the baseline.",
    epilog=options.examples("perflog ci keep branch:perflog", "perflog ci keep store.zip"),
)
@click.argument("place", metavar="PLACE")
@options.store
def keep(place: str, store: str | None) -> None:
    """Save the store at PLACE: branch:NAME of the git repository, or the address or path of a .zip file.

    The branch has one commit, which is replaced. If another job has saved a store there since this one was
    restored, the exit code is 3 and nothing is saved.
    """
    from perflog.ci import kept_store
    from perflog.tables.store import default_store

    folder = os.fspath(store or default_store())
    kept_store.keep(place, folder)
    terminal.put(f"{folder}: kept at {place}")
