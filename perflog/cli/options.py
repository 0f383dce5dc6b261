"""Shared by all commands: options, and the conversion of errors to exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.exceptions import Exit

from perflog.errors import PerflogError
from perflog.ingestion import workers

_FORMATS = ("text", "md", "csv", "json")


def print_error(error: PerflogError) -> None:
    """Print an error on standard error."""
    click.echo(f"perflog: {error}", err=True)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Convert errors to exit codes, in one place for all commands."""
    try:
        yield
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
    """Discard output that is not flushed yet: its reader has gone, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Group(click.Group):
    """A group of commands whose errors become exit codes. The name of a log instead of a command means `overview`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        overview = self.commands.get("overview")
        if overview is not None and args[0] not in self.commands and _names_runs(args[0]):
            return overview.name, overview, args
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with exit_codes(), workers.allowed():
            return super().invoke(ctx)


def _names_runs(text: str) -> bool:
    """Whether a word that is no command can be the name of a log, or of a run in the default store."""
    if text == "-" or os.path.exists(text) or any(c in text for c in "./#:*?[{"):
        return True
    from perflog.log import load
    from perflog.tables.store import default_store

    return os.path.isdir(default_store()) and bool(load().match(text))


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        from perflog import __version__

        click.echo(f"perflog {__version__}")
        ctx.exit()


def print_format(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option that chooses the format of the output."""
    choice = click.Choice(_FORMATS)
    return click.option("--format", type=choice, default="text", show_default=True, help="Format of the output.")(
        command
    )


def metrics(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all metrics take."""
    for option in (
        click.option(
            "--warmup", type=click.IntRange(0), metavar="N", help="Warm-up steps to cut.  [default: detected]"
        ),
        click.option("--gpu", metavar="NAME", help="The GPU, whose peak gives MFU.  [default: no MFU]"),
        click.option(
            "--peak-tflops",
            "--peak",
            type=float,
            metavar="TFLOP/s",
            help="Dense peak of one GPU in TFLOP/s, instead of --gpu.",
        ),
        click.option("--flops", metavar="ID", help="FLOP convention.  [default: the format's own]"),
    ):
        command = option(command)
    return command


version = click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
store = click.option("-o", "--store", metavar="STORE", help="The store.  [default: PERFLOG_STORE, or .perflog]")
using = click.option("--using", multiple=True, metavar="NAME|FILE.toml", help="Use this format too. May be repeated.")
