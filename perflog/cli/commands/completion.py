"""`perflog completion`."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

import click
from click.shell_completion import get_completion_class

from perflog.cli import options
from perflog.errors import PerflogError, UsageError
from perflog.output import terminal

_SHELLS = ("bash", "zsh", "fish")
_PROGRAM, _VARIABLE = "perflog", "_PERFLOG_COMPLETE"


@click.command(
    short_help="Complete commands and names with the Tab key.",
    epilog=options.examples("perflog completion --install", "perflog completion bash"),
)
@click.argument("shell", required=False, type=click.Choice(_SHELLS), metavar="[bash|zsh|fish]")
@click.option("--install", is_flag=True, help="Write the script to a file, and make new shells read it.")
@click.pass_context
def completion(ctx: click.Context, shell: str | None, install: bool) -> None:
    """Complete runs, labels, tables, metrics, plots, findings, formats and settings with the Tab key.

    Print the script for a shell, by default the one in SHELL. With --install, new shells complete: for bash and zsh a
    line in ~/.bashrc or ~/.zshrc reads the script.
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        raise UsageError(f"no completion for the shell `{name}`", help=f"name one of {', '.join(_SHELLS)}")
    shell_class = get_completion_class(name)
    assert shell_class is not None
    script = shell_class(ctx.find_root().command, {}, _PROGRAM, _VARIABLE).source()
    if not install:
        terminal.put(script, nl=False, utf8=True)
        return
    try:
        for text in _install(name, script):
            terminal.put(text)
    except OSError as error:
        raise PerflogError(f"cannot be written: {error.strerror}", str(error.filename)) from error


def _install(shell: str, script: str) -> list[str]:
    """Write the script, and the line that reads it. Return what was done, in words."""
    home = Path.home()
    if shell == "fish":
        path = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/perflog.fish"
    else:
        path = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share") / f"perflog/completion.{shell}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, encoding="utf-8")
    done = [f"written {path}"]
    if shell != "fish":
        start = home / f".{shell}rc"
        line = f"source {quote(str(path))}"
        if shell == "zsh":
            line = f"(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit }}; {line}"
        text = start.read_text(encoding="utf-8") if start.exists() else ""
        if line not in text.splitlines():
            with start.open("a", encoding="utf-8") as file:
                file.write("\n" * bool(text and not text.endswith("\n")) + line + "\n")
            done.append(f"added to {start}: {line}")
    return [*done, "open a new shell, and press Tab after `perflog show `"]
