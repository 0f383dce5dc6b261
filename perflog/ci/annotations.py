"""Workflow commands of GitHub Actions: annotations, outputs, and a screen without lines that act as commands.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from secrets import token_hex
from typing import Literal

from perflog.analysis.compare.gates import Outcome
from perflog.output import terminal
from perflog.output.terminal import cut, visible

_MOST = 8  # GitHub shows ten of a step
_LONGEST = 1000  # characters of a message


def annotation(level: Literal["error", "warning", "notice"], title: str, message: str) -> str:
    r"""Return a line that GitHub shows as an annotation.

    Example:
        >>> print(annotation("error", "perflog: main", "100 %\nslower"))
        ::error title=perflog%3A main::100 %25%0Aslower
    """
    return f"::{level} title={_property(title)}::{_data(cut(message, _LONGEST))}"


def outcome_commands(outcome: Outcome, title: str) -> Iterator[str]:
    """Yield an error for each reason why a gate did not pass, or a warning for what it passed without being sure."""
    place = f"{title}: {outcome.title}"
    if outcome.code:
        yield from (annotation("error", place, reason) for reason in (outcome.reasons or (outcome.title,))[:_MOST])
    else:
        yield from (annotation("warning", place, note) for note in outcome.notes[:_MOST])


@contextmanager
def no_commands(is_github: bool) -> Iterator[None]:
    """Keep GitHub from running commands in what the block prints: a log, or the name of one, may hold `::error`."""
    token = token_hex(16)
    if not is_github:
        yield
        return
    terminal.put(f"::stop-commands::{token}")
    sys.stdout.flush()
    try:
        yield
    finally:
        sys.stderr.flush()
        terminal.put(f"::{token}::")
        sys.stdout.flush()


def set_outputs(values: Mapping[str, str]) -> None:
    """Set outputs of the step that runs, where there is one. Values are words and numbers of perflog's own."""
    if path := os.environ.get("GITHUB_OUTPUT"):
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(f"{name}={' '.join(value.split())}\n" for name, value in values.items())


def add_to_step_summary(markdown: str) -> None:
    """Add Markdown to the summary of the step that runs, where there is one."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(markdown)


def _data(text: str) -> str:
    lines = visible(text).replace("%", "%25").split("\n")
    return "%0A".join(lines).replace("\r", "%0D")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
