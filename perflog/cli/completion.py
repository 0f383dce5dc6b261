"""What the Tab key completes: names of runs, tables, metrics, plots, findings, formats and settings."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click  # noqa: TC002 (ruff does not know that click is loaded with its part below)
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

from perflog.errors import PerflogError
from perflog.output.terminal import visible

if TYPE_CHECKING:
    from perflog.log import Log

    Completions = list[CompletionItem[str]]  # generic since click 8.5
    Completer = Callable[[click.Context, click.Parameter, str], Completions]

_MAX = 200  # names that are offered

_BASH = """\
%(complete_func)s() {
    local type value name
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            plain) COMPREPLY+=("$value") ;;
            file|dir)
                compopt -o filenames
                while IFS= read -r name; do
                    COMPREPLY+=("$name")
                done < <(compgen "-${type:0:1}" -- "$value")
                ;;
        esac
    done < <(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_CURRENT="${COMP_WORDS[COMP_CWORD]}" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class _Bash(BashComplete):
    """Completion for bash: also of words with `:` or `=`, at which bash breaks words."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        *words, last = _words(line) or [""]
        current = (_words(os.environ["COMP_CURRENT"]) or [""])[-1]
        self._before = last[: len(last) - len("" if current in (":", "=") else current)]
        return words[1:], last

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{str(item.value).removeprefix(self._before)}"


def _words(line: str) -> list[str]:
    """The words of a command line; the last one may be empty or open."""
    from click.shell_completion import split_arg_string

    words = split_arg_string(line)
    return [*words, ""] if line[-1:].isspace() and not line.endswith("\\ ") else words


def _of(names: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Return a completer for names; what cannot be read has none."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> Completions:
        return [CompletionItem(name) for name in _beginning(incomplete, lambda: names(ctx))]

    return complete


def _listed(module: str, names: str) -> Completer:
    """Return a completer for the names that a module lists; it is loaded when somebody presses the key."""
    return _of(lambda _: getattr(import_module(module), names))


def _beginning(incomplete: str, names: Callable[[], Iterable[str]]) -> list[str]:
    """The names that begin so, each once, without those that a line cannot hold."""
    try:
        fitting = dict.fromkeys(name for name in names() if name.startswith(incomplete))
        return [name for name in fitting if visible(name) == name and "\n" not in name][:_MAX]
    except (PerflogError, OSError):
        return []


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> Completions:
    """Complete a RUN: ids, labels and logs of the store, reference runs, files; also after NAME=."""
    from perflog.parsing.input.log_names import REFERENCE

    name, equals, _ = incomplete.partition("=")
    before = f"{name}=" if equals and str(param.metavar).startswith("[NAME=]") else ""
    rest = incomplete.removeprefix(before)
    named = [CompletionItem(before + run) for run in _beginning(rest, lambda: _run_names(ctx, rest))]
    return named if rest.startswith(REFERENCE) else [*named, *files(ctx, param, incomplete)]


def _run_names(ctx: click.Context, incomplete: str) -> Iterator[str]:
    from perflog.opening import reference
    from perflog.parsing.input.log_names import REFERENCE

    if incomplete.startswith(REFERENCE):
        keys = reference().run_keys
        yield from (f"{REFERENCE}{key.log}" for key in keys)
        yield from (f"{REFERENCE}{key.log}:{key.index}" for key in keys)
        return
    yield REFERENCE
    store = _stored(ctx)
    for key in store.run_keys if store is not None else ():
        yield from filter(None, (key.label, key.id if incomplete else None, key.log))
        if incomplete.startswith(key.log):
            yield from (f"{key.log}:{key.index}", f"{key.log}#{key.index}")


def _stored(ctx: click.Context) -> Log | None:
    """The runs of the store that the command line names. A shell shows no warnings."""
    from perflog.opening import load
    from perflog.tables.store import default_store, store_exists

    folder = ctx.params.get("store") or default_store()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(folder) if store_exists(folder) else None


def _settings(ctx: click.Context) -> Iterator[str]:
    store = _stored(ctx)
    configs = store.arrow("runs")["config"].to_pylist() if store is not None else []
    for config in configs:
        yield from json.loads(config or "{}")


def _formats(_: click.Context) -> Iterable[str]:
    from perflog.formats.registry import known

    return known()


def _gpus(_: click.Context) -> Iterable[str]:
    from perflog.metrics.hardware import GPU_MODELS

    return (model.name for model in GPU_MODELS)


def _baselines(ctx: click.Context) -> Iterable[str]:
    from perflog.analysis.compare import baselines

    return baselines.read(ctx.params.get("store"))


def _recipes(_: click.Context) -> Iterable[str]:
    from perflog.trainer.recipes import recipe_names

    return recipe_names()


def files(_: click.Context, __: click.Parameter, incomplete: str) -> Completions:
    """Complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def stores(_: click.Context, __: click.Parameter, incomplete: str) -> Completions:
    """Complete the name of a store, which is a folder."""
    return [CompletionItem(incomplete, type="dir")]


settings, formats, gpus, recipes, baselines = map(_of, (_settings, _formats, _gpus, _recipes, _baselines))
tables, metrics = _listed("perflog.tables.schema", "TABLES"), _listed("perflog.metrics", "METRICS")
plots, findings = _listed("perflog.plots", "PLOTS"), _listed("perflog.analysis.lint", "RULES")
conventions = _listed("perflog.formats.flops", "CONVENTIONS")
