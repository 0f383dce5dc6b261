"""Shared by all commands: options, and the conversion of errors to exit codes."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource
from click.exceptions import Exit, NoSuchOption
from click.exceptions import UsageError as ClickUsageError

from perflog.cli import completion
from perflog.errors import PerflogError, UsageError, nearest
from perflog.ingestion import workers
from perflog.output import terminal
from perflog.signals import ended_by_signals

if TYPE_CHECKING:
    from click import ParamType as ParamType  # noqa: PLC0414 (exported)
else:

    class ParamType(click.ParamType):
        """A type of values of the command line. click's own is generic since 8.5."""

        def __class_getitem__(cls, _: object) -> type[ParamType]:
            return cls


FORMATS = ("text", "md", "csv", "json")
"""Formats in which commands print."""

BRIEF = "brief"
"""Format of an answer in at most 400 tokens."""


def print_error(error: PerflogError) -> None:
    """Print an error on standard error."""
    terminal.tell(f"perflog: {error}", err=True)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Convert errors to exit codes, for all commands."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except PerflogError as error:
        print_error(error)
        raise Exit(error.code) from error
    except BrokenPipeError:
        _drop_output()
        raise Exit(141) from None  # like a process that SIGPIPE ended
    except OSError as error:
        print_error(PerflogError(f"{error.strerror or error}", error.filename or "standard output"))
        _drop_output()
        raise Exit(PerflogError.code) from error
    except KeyboardInterrupt:
        raise Exit(130) from None


def _drop_output() -> None:
    """Discard output that cannot be flushed: its reader has gone, or the disk is full."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _open_closed_streams() -> None:
    """Open the standard streams that the shell closed (`>&-`), so that no other file takes their numbers."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8", errors="replace"))
            if (descriptor := getattr(sys, name).fileno()) != number:
                os.dup2(descriptor, number)


def examples(*commands: str) -> str:
    """Return the end of a help page: commands that a reader could type."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


class FiniteRange(click.FloatRange):
    """A command-line value: a number in a range, neither infinite nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class Group(click.Group):
    """A group of commands that turns errors into exit codes. A log instead of a command means `overview`."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line."""
        _open_closed_streams()
        with ended_by_signals():
            return super().main(*args, **options)

    def _main_shell_completion(self, *args: Any, **options: Any) -> None:
        """Answer the Tab key. A program that sets only the variable which asks for it gets an error."""
        try:
            super()._main_shell_completion(*args, **options)
        except UnicodeEncodeError:  # a word of other bytes than UTF-8 has no completion
            sys.exit(0)
        except (KeyError, ValueError):
            print_error(
                UsageError("completion was asked for without a command line", help="see `perflog completion -h`")
            )
            sys.exit(UsageError.code)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if "overview" in names and args[0] not in names and _names_runs(args[0]):
            return "overview", self.get_command(ctx, "overview"), args
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            close = nearest(args[0], names)
            if close is None:
                raise
            message = f"No such command '{args[0]}'. Did you mean '{close}'?"
            raise click.UsageError(message, ctx) from None

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with exit_codes(), _usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with exit_codes(), _usage_errors(), _shown_warnings(), workers.allowed():
            return super().invoke(ctx)


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """Print warnings of perflog's own as messages, not as places in its code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        terminal.tell(f"perflog: warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


class _ShownUsageError(ClickUsageError):
    """An error of click that keeps its exit code if standard error cannot be written."""

    def show(self, file: IO[Any] | None = None) -> None:
        try:
            super().show(file)
        except OSError:
            terminal.drop_errors()


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Print the messages of click like all others; replace the message about an option that had two meanings."""
    try:
        yield
    except ClickUsageError as error:
        message = error.format_message()
        if isinstance(error, NoSuchOption) and error.option_name == "-o":
            message = "-o names a file to write, and this command writes none; the store is --store."
        head = "Error: "  # click puts it before the message
        message = "\n".join(terminal.sentences(head + message, err=True)).removeprefix(head)
        raise _ShownUsageError(message, error.ctx) from None


def typed(ctx: click.Context, *names: str) -> list[str]:
    """Return the words of options as they were typed, for a command that goes on from this one."""
    words: list[str] = []
    for param in ctx.command.params:
        if param.name in names and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            given = ctx.params[param.name]
            for value in given if isinstance(given, tuple) else (given,):
                words += [param.opts[0], f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def _names_runs(text: str) -> bool:
    """Whether a word that is no command can be the name of a log, or of a run in the default store."""
    if text == "-" or os.path.exists(text) or any(c in text for c in "./#:*?[{"):
        return True
    from perflog.opening import load
    from perflog.tables.store import default_store, store_exists

    return store_exists(default_store()) and bool(load().match(text))


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        from perflog.version import installed_version

        terminal.put(f"perflog {installed_version()}")
        ctx.exit()


def print_format(command: Callable[..., None], formats: Sequence[str] = FORMATS) -> Callable[..., None]:
    """Add the options that choose the format of the output."""
    choice = click.Choice(formats)
    option = click.option("--format", type=choice, default="text", show_default=True, help="Format of the output.")
    return option(wide(raw(command)))


def answer_format(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the format of an answer, which may be brief."""
    return print_format(command, (*FORMATS, BRIEF))


def _choose(ctx: click.Context, option: click.Parameter, chosen: bool) -> None:
    if chosen and option.name:
        terminal.choose(ctx, **{option.name: True})


def metrics(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all metrics take."""
    for option in (
        click.option(
            "--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut.  [default: detected]"
        ),
        click.option(
            "--gpu",
            shell_complete=completion.gpus,
            metavar="NAME",
            help='GPU, such as "H100 SXM": MFU is relative to its peak.  [default: no MFU]',
        ),
        click.option(
            "--peak-tflops",
            "--peak",
            type=FiniteRange(0, min_open=True),
            metavar="TFLOP/s",
            help="Peak of one GPU at the precision of the run, without sparsity, for a GPU that --gpu does not know: "
            "MFU is relative to it.",
        ),
        click.option(
            "--flops",
            shell_complete=completion.conventions,
            metavar="ID",
            help="FLOP convention.  [default: the format's own]",
        ),
    ):
        command = option(command)
    return command


class Target(NamedTuple):
    """A series, and the value that it is to reach."""

    series: str
    value: float

    def __str__(self) -> str:
        return f"{self.series}={self.value:g}"


class TargetType(ParamType[Target]):
    """A command-line value: `val_loss=3.28`."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        if isinstance(value, Target):
            return value
        series, _, number = str(value).rpartition("=")
        with suppress(ValueError):
            if series and math.isfinite(float(number)):
                return Target(series, float(number))
        return self.fail(f"{value!r} is not a target: write SERIES=VALUE, such as val_loss=3.28", param, ctx)


def _one_of_each(ctx: click.Context, param: click.Parameter, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    if len(dict(targets)) < len(targets):
        raise click.BadParameter("a series can have only one target", ctx, param)
    return targets


targets = click.option(
    "--target",
    "targets",
    type=TargetType(),
    multiple=True,
    callback=_one_of_each,
    metavar="SERIES=VALUE",
    help="Target value of a series: report the time and the steps until it is reached.",
)
gpu_hour = click.option(
    "--gpu-hour",
    type=FiniteRange(0, min_open=True),
    metavar="PRICE",
    help="Price of a GPU hour, in any currency, for the cost of a step, a token and a run.",
)
version = click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
log_format = click.option(
    "--format",
    "formats",
    shell_complete=completion.formats,
    multiple=True,
    metavar="NAME|FILE.toml",
    help="Log format. May be repeated.",
)
interval = click.option(
    "--interval",
    type=FiniteRange(0.01, 86_400),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two checks of a growing file.",
)
until_idle = click.option(
    "--until-idle",
    type=FiniteRange(0),
    metavar="SECONDS",
    help="End when the file has not grown for this time.  [default: never]",
)
wide = click.option(
    "--wide",
    is_flag=True,
    expose_value=False,
    callback=_choose,
    help="Text: print whole tables, also on a narrow terminal.",
)
raw = click.option(
    "--raw",
    is_flag=True,
    expose_value=False,
    callback=_choose,
    help="CSV: do not escape control characters, nor strings that a spreadsheet would run as formulas.",
)
store = click.option(
    "--store",
    shell_complete=completion.stores,
    metavar="STORE",
    help="The store.  [default: PERFLOG_STORE, or .perflog]",
)
using = click.option(
    "--using",
    shell_complete=completion.formats,
    multiple=True,
    metavar="NAME|FILE.toml",
    help="Use this format too. May be repeated.",
)
