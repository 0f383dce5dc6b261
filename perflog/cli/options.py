"""What commands share: options, and the way errors become exit codes."""

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


def complain(error: PerflogError) -> None:
    """Say what is wrong, on standard error."""
    click.echo(f"perflog: {error}", err=True)


@contextmanager
def way_out() -> Iterator[None]:
    """Turns errors into exit codes, once for all commands."""
    try:
        yield
        sys.stdout.flush()
    except PerflogError as error:
        complain(error)
        raise Exit(error.code) from error
    except BrokenPipeError:
        _drop_output()
        raise Exit(141) from None  # as a process that died of SIGPIPE
    except OSError as error:
        complain(PerflogError(f"{error.strerror or error}", error.filename or "standard output"))
        _drop_output()
        raise Exit(PerflogError.code) from error
    except KeyboardInterrupt:
        raise Exit(130) from None


def _drop_output() -> None:
    """What is left to flush has no place: the reader has gone, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class Group(click.Group):
    """The group whose commands leave by exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        with way_out():
            return super().invoke(ctx)


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        from perflog import __version__

        click.echo(f"perflog {__version__}")
        ctx.exit()


def print_format(command: Callable[..., None]) -> Callable[..., None]:
    """The option that says how a command prints."""
    choice = click.Choice(_FORMATS)
    return click.option("--format", type=choice, default="text", show_default=True, help="How to print.")(command)


version = click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
store = click.option("-o", "--store", metavar="STORE", help="The store.  [default: PERFLOG_STORE, or .perflog]")
using = click.option("--using", multiple=True, metavar="NAME|FILE.toml", help="Use this format. May be repeated.")
