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
    """A group of commands whose errors become exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        with exit_codes():
            return super().invoke(ctx)


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


version = click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
store = click.option("-o", "--store", metavar="STORE", help="The store.  [default: PERFLOG_STORE, or .perflog]")
using = click.option("--using", multiple=True, metavar="NAME|FILE.toml", help="Use this format too. May be repeated.")
