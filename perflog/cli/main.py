"""The command `perflog`: each subcommand reads its arguments, calls one Python function, and prints the result."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from perflog.cli import commands, completion, config, options
from perflog.errors import PerflogError, UsageError
from perflog.ingestion.memory import freeze
from perflog.output import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perflog.ingestion.bulk import IngestTask, Outcome
    from perflog.parsing.input.log_names import LogName
    from perflog.parsing.input.spilled_input import SpilledInput

_OBJECTS_KEPT = 200_000  # before the garbage collector looks for cycles: imports alone would run it a hundred times


_FIRST_STEPS = """\
perflog reads the logs and traces of distributed training. Type:

  perflog run.txt                  what ran, how fast, why, what not to trust
  perflog compare old.txt new.txt  whether it became faster, and where
  perflog lint run.txt             which numbers cannot be trusted, and why
  perflog report run.txt           all of it on one page, with plots
  perflog ingest logs/             keeps runs; `perflog runs` lists them

`perflog demo` shows it on runs that ship with perflog.
`perflog -h` lists all commands; `perflog completion --install` for the Tab key."""


_ASK_FOR_HELP = frozenset(("-h", "--help", "--version"))


class _Commands(options.Group):
    """The commands of this module and of package `commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *commands.NAMES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return commands.load(cmd_name) if cmd_name in commands.NAMES else super().get_command(ctx, cmd_name)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of a call, with the defaults of the project."""
        known = config.Config()
        is_tab = bool(extra.get("resilient_parsing"))  # which shows no errors
        with suppress(PerflogError) if is_tab or _ASK_FOR_HELP.intersection(args) else options.exit_codes():
            known = config.find()
        ctx = super().make_context(info_name, args, parent, **({"default_map": known.defaults()} | extra))
        if known.store and not os.environ.get("PERFLOG_STORE"):
            os.environ["PERFLOG_STORE"] = known.store  # processes that read logs have it too
            ctx.call_on_close(partial(os.environ.pop, "PERFLOG_STORE", None))
        return ctx


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--input-limit",
    metavar="SIZE",
    help="Stop with an error after SIZE bytes, such as 1TB, of standard input, of an address, or of a compressed file"
    " that unpacks to more than 250 times its size. Other files have no limit.  [default: PERFLOG_INPUT_LIMIT; else"
    " 256GiB, and 1GiB for such a compressed file]",
)
@options.version
@click.pass_context
def main(ctx: click.Context, input_limit: str | None) -> None:
    """Read the logs of distributed training into typed tables.

    `perflog LOG` shows on one screen what ran, how fast, why it is slow, and what not to trust. LOG may also be a
    folder of logs or a store.

    RUN is a run id or its beginning, a label, or a log file, which is read on the fly. LOG#3, LOG:3 and LOG#label are
    single runs of a log; some shells want quotes around a #. A log may be compressed; - is standard input.
    """
    gc.set_threshold(_OBJECTS_KEPT)
    atexit.register(freeze)  # spares the interpreter the last search for cycles
    # Before numpy is imported: its BLAS would start threads that spin for 0.1 s, and nothing here uses them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character still shows the rest
    if input_limit is not None:
        from perflog.parsing.input import limits

        limits.parse_size(input_limit)
        os.environ[limits.VARIABLE] = input_limit  # processes that read logs have it too
    if ctx.invoked_subcommand is None:
        terminal.put(_FIRST_STEPS)


@main.command(
    short_help="Show the format of logs, and how much of them is read.",
    epilog=options.examples("perflog detect run.txt", "perflog detect logs/a.txt logs/b.txt --format csv"),
)
@click.argument("logs", shell_complete=completion.files, nargs=-1, required=True, metavar="LOG...")
@options.print_format
def detect(logs: tuple[str, ...], format: str) -> None:
    """Show the format of each LOG, how much of the log it reads, and the lines that prove it."""
    from perflog.ingestion.explained import detect_logs
    from perflog.output import sheets
    from perflog.output.presenters import formats as presenter

    shown: list[sheets.Sheet] = []
    failed, flat = False, format in ("csv", "json")
    for name, detection in detect_logs(logs):
        if isinstance(detection, PerflogError):
            options.print_error(detection)
            failed = True
        else:
            shown += presenter.detection_sheets(name, detection, flat)
    sheets.write(sheets.join(shown) if flat else shown, format)
    if failed:
        raise Exit(3)


@main.command(
    short_help="Read logs into a store.",
    epilog=options.examples("perflog ingest logs/ --label monday", "perflog ingest run.txt --tag cluster=a100"),
)
@click.argument("logs", shell_complete=completion.files, nargs=-1, required=True, metavar="LOG...")
@options.store
@click.option("--label", metavar="NAME", help="Label of the runs.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A setting of the runs that no log prints.")
@options.log_format
@click.option("--strict", is_flag=True, help="Treat a log with unread lines or numbers as an error; do not store it.")
@click.option(
    "--guess", is_flag=True, help="Guess a format for lines that no format reads; their rows have read_by = guess."
)
@click.option("--follow", is_flag=True, help="Keep the store up to date with one log while a job writes it.")
@options.interval
@options.until_idle
@click.option("--json", "as_json", is_flag=True, help="Print what was read as JSON.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Number of processes to read with.")
@click.option(
    "--scheduler", metavar="ADDRESS", help="Read on the Dask cluster of this scheduler, such as tcp://host:8786."
)
def ingest(
    logs: tuple[str, ...],
    as_json: bool,
    follow: bool,
    interval: float,
    until_idle: float | None,
    processes: int | None,
    scheduler: str | None,
    store: str | None,
    formats: tuple[str, ...],
    tags: tuple[str, ...],
    **options_of_task: Any,
) -> None:
    """Read logs into a store. LOG is a file, a folder, a glob, an address, or - for standard input.

    An address is https://..., or a file, a folder or a glob on object storage: s3://, gs://, hf:// (extra `remote`).

    Reading a log twice changes nothing. A log that has grown at the same path replaces its earlier state, which is
    dropped. An error in one log does not stop the others.

    While standard input is read, the last step is shown; the log is stored when the input ends.

    The commit, branch, pull request and job of a CI system or Slurm are recorded from its environment; --tag adds more.

    With --follow the store is updated while the log grows. If the log is rotated, perflog reads the renamed file to
    its end, then the new file at the path. If the log is truncated, its new content is another log. perflog stops when
    the file is removed, or with Ctrl-C; the tables are then the same as if it had read the whole log at once.
    """
    from perflog.ingestion import bulk
    from perflog.output import sheets
    from perflog.output.presenters import runs as presenter
    from perflog.provenance import parse_tags, provenance
    from perflog.tables.store import default_store

    if scheduler and (follow or processes):
        raise UsageError(
            "--scheduler cannot be combined with --follow or --processes",
            scheduler,
            "the workers of the scheduler read the logs",
        )
    if not follow and options.typed(click.get_current_context(), "interval", "until_idle"):
        raise UsageError("--interval and --until-idle are for --follow", " ".join(logs), "add --follow")
    names = bulk.log_names(logs, formats)
    task = bulk.IngestTask(
        store or default_store(), formats=formats, provenance=provenance(), tags=parse_tags(tags), **options_of_task
    )
    outcomes = (
        _follow(names, task, processes, interval, until_idle) if follow else _ingest(names, task, processes, scheduler)
    )
    _print_errors(outcomes)
    errors = [outcome for _, outcome in outcomes if isinstance(outcome, PerflogError)]
    if as_json:
        terminal.put(presenter.ingest_json(outcomes))
    else:
        results = [outcome for _, outcome in outcomes if not isinstance(outcome, PerflogError)]
        sheets.write(list(presenter.ingest_sheets(results)))
        if results:
            option = f" --store {quote(task.store)}" if store else ""
            next_commands = f"`perflog {quote(task.store)}` shows them, `perflog runs{option}` lists them"
            terminal.tell(f"\nstored in {task.store}; {next_commands}")
    if errors:
        raise Exit(errors[0].code if len(outcomes) == 1 else 3)


def _ingest(
    names: Sequence[LogName], task: IngestTask, processes: int | None, scheduler: str | None
) -> list[tuple[str, Outcome]]:
    """Ingest logs and show the progress. Return the outcomes."""
    from perflog.cli.progress import byte_progress
    from perflog.files.remote import is_in_storage
    from perflog.ingestion import bulk
    from perflog.output import sheets
    from perflog.parsing.input.log_names import STDIN
    from perflog.parsing.input.spilled_input import standard_input
    from perflog.readers.setting_files import SETTINGS_FROM
    from perflog.tables.store import store_exists
    from perflog.units import first_few

    if (
        not scheduler
        and [name.log for name in names] == [STDIN]
        and not names[0].run
        and (input := standard_input()) is not None
    ):
        return [(STDIN, _ingest_input(input, task, processes))]
    if is_in_storage(task.store):
        store_exists(task.store)  # a storage that does not answer is one error, not one for each log
    with byte_progress(bulk.expected(names), len(names)) as progress:
        if scheduler:
            from perflog.ingestion.cluster import ingest_on_cluster

            done = ingest_on_cluster(names, task, scheduler, progress)
        else:
            done = bulk.ingest_many(names, task, processes, progress)
        log_outcomes, sentences = bulk.without_found(done)
    for sentence in sentences:
        sheets.warn(sentence)
    if files := dict.fromkeys(name.settings[SETTINGS_FROM] for name in names if name.settings):
        terminal.tell(f"settings are from {first_few(files)}, beside the logs")
    return [(str(name), outcome) for name, outcome in log_outcomes]


def _ingest_input(input: SpilledInput, task: IngestTask, processes: int | None) -> Outcome:
    """Ingest standard input, and show its last steps on standard error before it ends. Return the outcome."""
    from perflog.cli.live_lines import LiveLines
    from perflog.ingestion.following import ingest_input

    lines = LiveLines(err=True)
    try:
        return ingest_input(input, task, processes or 2, lines.observe, lines.look)
    except KeyboardInterrupt:
        lines.tell("standard input: interrupted; what came is stored")
        raise
    finally:
        lines.end()


def _follow(
    names: Sequence[LogName], task: IngestTask, processes: int | None, interval: float, until_idle: float | None
) -> list[tuple[str, Outcome]]:
    """Ingest a log while it grows, and show its last steps on standard error. Return what `_ingest` returns."""
    from perflog.cli.live_lines import LiveLines
    from perflog.ingestion.following import State, follow
    from perflog.parsing.input.followed_file import Patience
    from perflog.parsing.input.log_names import STDIN

    if names[0].log == STDIN:
        raise UsageError("standard input needs no --follow", "-", "`tail -f run.txt | perflog ingest -`")
    if len(names) != 1 or len(names[0].files) != 1:
        raise UsageError(
            f"--follow takes one log, not {len(names)}", " ".join(map(str, names)), "start one command for each log"
        )
    name = names[0]
    outcomes: list[tuple[str, Outcome]] = []
    lines = LiveLines(err=True)

    def show(state: State) -> None:
        lines.show(force=state.is_last)
        if not state.is_last:
            return
        if state.outcome is not None:
            outcomes.append((str(name), state.outcome))
        lines.tell(f"{name}: {state.ending.value if state.ending else 'interrupted'}; what was read is stored")
        lines.steps.forget()

    try:
        follow(name, task, Patience(interval, until_idle), processes or 2, lines.observe, show)
    finally:
        lines.end()
    return outcomes


def _print_errors(outcomes: Sequence[tuple[str, Outcome]]) -> None:
    """Print the errors and warnings of logs."""
    from perflog.output import sheets

    first_name: dict[str, str] = {}  # by digest
    for name, outcome in outcomes:  # after the progress bar has gone
        if isinstance(outcome, PerflogError):
            options.print_error(outcome)
            continue
        for text in outcome.warnings:
            sheets.warn(f"{name}: {text}")
        first = first_name.setdefault(outcome.sha256, name)
        if first != name:
            sheets.warn(f"{name}: the same bytes as {first}, stored once")


@main.command(
    short_help="List the runs in a store.",
    epilog=options.examples(
        "perflog runs --where 'format = megatron and world_size >= 8' --sort step",
        "perflog runs --columns label,steps,step --format csv",
    ),
)
@options.store
@click.option("--where", metavar="CONDITION", help="Only runs that meet it: `world_size >= 8 and model ~ llama`.")
@click.option("--sort", metavar="NAME", help="Order by a column, setting or metric; -NAME: the largest first.")
@click.option(
    "--columns", metavar="NAME,...", help="Columns to print: columns of table runs, settings, metrics such as step."
)
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Number of runs; 0 for all.  [default: all]")
@options.print_format
def runs(
    store: str | None, where: str | None, sort: str | None, columns: str | None, limit: int | None, format: str
) -> None:
    """List the runs in a store.

    Conditions compare columns of table runs, settings, numbers of rows (steps, lines, unread) and metrics (step, loss,
    tokens/s) with =, !=, <, <=, >, >=, and ~ for "contains"; `and`, `or`, `not` and parentheses join them. `ingested`
    is when the log of a run was first read into the store, in UTC: `ingested >= 2026-03-01`. `median_step` is
    the median of printed step times; `step` has those of traces too. `ended_by` is what ended a run that failed, such
    as `CUDA out of memory`.
    """
    from perflog.analysis.run_list import RunList
    from perflog.opening import load
    from perflog.output import sheets
    from perflog.output.presenters import runs as presenter
    from perflog.tables.store import default_store, is_empty

    log = load(store)
    if not len(log) and is_empty(store or default_store()):
        sheets.warn("the store is empty: `perflog ingest LOG` reads a log into it")
    chosen = RunList(log)
    chosen.select(where, sort, limit or 0)
    if len(log) and not chosen.keys:
        sheets.warn(f"no run of {len(log):,} fulfils the condition")
    standard = chosen.brief() if format in ("text", "md") else presenter.STANDARD
    names = [name.strip() for name in (columns or "").split(",") if name.strip()]
    note = chosen.hosts() if format in ("text", "md") else ""
    sheets.write([presenter.runs_sheet(chosen, names or standard, note)], format)


@main.command(
    short_help="Show a run at a glance, or a table of it.",
    epilog=options.examples("perflog show run.txt steps --limit 5", "perflog show run.txt"),
)
@click.argument("run", shell_complete=completion.runs)
@click.argument("table", shell_complete=completion.tables, required=False)
@options.store
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Rows of a table; 0 for all.  [default in text: 40]")
@options.print_format
def show(run: str, table: str | None, store: str | None, limit: int | None, format: str) -> None:
    """Show one RUN at a glance, or one TABLE of it.

    Text and Markdown scale values to readable units. CSV and JSON print them in base units.
    """
    from perflog.opening import find_runs
    from perflog.output import sheets
    from perflog.output.presenters import runs as presenter

    log = find_runs(run, store)
    sheets.warn(*log.warnings)
    if table:
        rows = log.arrow(table)
        if not len(rows):
            sheets.warn(f"{run}: table {table} has no rows; these tables have: {', '.join(log.table_names)}")
        sheets.write([sheets.table_sheet(table, rows, format, limit)], format)
    elif len(log) == 1:
        sheets.write(list(presenter.run_sheets(log, format)), format)
    else:
        sheets.write([presenter.choices_sheet(log, run)], format)


@main.group()
def formats() -> None:
    """List, show, suggest, check and try log formats.

    A format is one TOML file; parsers/README.md describes its grammar. `perflog formats suggest LOG` prints a file to
    start from: look at what it guessed, then run `perflog formats check FILE`.
    """


@formats.command(
    "list",
    short_help="List the known formats.",
    epilog=options.examples("perflog formats list", "perflog formats list --format json"),
)
@options.print_format
def list_formats(format: str) -> None:
    """List the known formats."""
    from perflog.output import sheets
    from perflog.output.presenters import formats as presenter

    sheets.write([presenter.formats_sheet()], format)


@formats.command(
    "show",
    short_help="Show the line shapes of a format.",
    epilog=options.examples("perflog formats show megatron", "perflog formats show torchtitan --format md"),
)
@click.argument("name", shell_complete=completion.formats)
@options.print_format
def show_format(name: str, format: str) -> None:
    """Show the line shapes of a format: the table of each, its template, a sample."""
    from perflog.formats.registry import get
    from perflog.output import sheets
    from perflog.output.presenters import formats as presenter

    sheets.write([presenter.format_sheet(get(name), format)], format)


@formats.command(
    "check",
    short_help="Check a format file and its samples.",
    epilog=options.examples("perflog formats check mine.toml", "perflog formats check mine.toml --format json"),
)
@click.argument("file", shell_complete=completion.files)
@options.print_format
def check_format(file: str, format: str) -> None:
    """Check a format file: its keys, its samples, and that no other format reads its samples."""
    from perflog.formats.registry import get
    from perflog.output import sheets
    from perflog.output.presenters import formats as presenter

    if not file.endswith(".toml"):
        raise UsageError("not a format file", file, "its name ends in .toml")
    sheets.write(list(presenter.checked_sheets(get(file))), format)


@formats.command(
    "suggest",
    short_help="Print a format file for a log that no format reads.",
    epilog=options.examples(
        "perflog formats suggest other.txt > mine.toml", "perflog formats suggest other.txt --using mine.toml"
    ),
)
@click.argument("log", shell_complete=completion.files)
@options.using
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Most common line shapes to describe.  [default: 60]"
)
def suggest_format(log: str, using: tuple[str, ...], limit: int | None) -> None:
    """Print a format file to start from, for a LOG in an unknown format.

    The file describes the most common lines that no known format reads. Comments mark each guess. perflog has
    checked that the file reads all lines that it describes.
    """
    from perflog.formats.registry import named_formats
    from perflog.ingestion.suggest import LINES, suggest

    text = suggest(log, named_formats(using), limit or LINES)
    terminal.put(text, nl=False, utf8=True)


@formats.command(
    "explain",
    short_help="Show which line shape reads a line.",
    epilog=options.examples(
        "perflog formats explain 'step 7: loss 2.5 | lr 1e-4'",
        "perflog formats explain 'step 7: loss 2.5 | lr 1e-4' --using mine.toml",
    ),
)
@click.argument("line")
@options.using
@options.print_format
def explain_line(line: str, using: tuple[str, ...], format: str) -> None:
    """Show which line shape reads a LINE, or where the nearest one fails."""
    from perflog.formats.registry import named_formats
    from perflog.output import sheets
    from perflog.output.presenters import formats as presenter

    sheets.write(list(presenter.explanation_sheets(line, named_formats(using))), format)
