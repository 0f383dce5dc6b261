"""A failure that a log reports, and what further lines of its message add to it."""

from __future__ import annotations

import re

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.failures.kinds import TRACEBACK, Kind, kinds, reported
from perflog.parsing.failures.origins import Origin, add_place, origin_of
from perflog.tables.row_order import PART_BITS

MESSAGE = 1_000  # characters of a message
DIRECT, HANDLING = "was the direct cause of the following exception", "another exception occurred"
ORIGINAL = f"Original {TRACEBACK}"
"""What Python prints after an exception that a worker or a replica raised: where it was raised."""

PART_OF_GROUP = "---------------- 1 ----------------"
"""What Python prints before the lines of a group of exceptions, and before the first of them."""

_REPEATED = lazy_pattern(r" \[repeated (\d+)x across cluster\]$")
"""Suffix of a message that so many processes of Ray print. Its label names one of them."""

_OPEN = lazy_pattern(r"\([^()]*$")
_ACTOR_NODE = lazy_pattern(r"^\s*ip: (?P<node>[\w.:-]+)$")


class Failure(Struct):
    """A failure that a log reports.

    Attributes:
        position: The position of its first segment. `last_line`: the line in which its message ends.
        kind: Its kind.
        message: What is printed.
        values: What the pattern of its kind found.
        origin: Where it comes from.
        stream: The labels before its lines, which distinguish processes.
        traced: Whether it is the end of a traceback, or a message that ends every program.
        count: How often it is reported in a row.
        time: Time at which it was printed, in ns of `clock`; None if unknown.
        section: How often the first line of the log was printed again before.
        is_refusal: Whether a server only refused a request, with a status of HTTP that blames the client.
    """

    position: int
    last_line: int
    kind: Kind
    message: str
    values: dict[str, str]
    origin: Origin
    stream: str
    traced: bool = True
    count: int = 1
    time: int | None = None
    clock: str | None = None
    section: int = 0
    is_refusal: bool = False

    @property
    def line(self) -> int:
        """The line in which it begins."""
        return self.position >> PART_BITS


def merge(first: Failure, later: Failure, how: str) -> None:
    """Join an exception with the one that it led to: one record. It is of the kind that says more."""
    plain = kinds()["exception"]
    first.last_line = later.last_line
    replaces = first.kind is plain and (later.kind is not plain or how == HANDLING)
    replaces |= how in (ORIGINAL, PART_OF_GROUP) and (
        first.kind is later.kind or (first.kind.plain and not later.kind.plain)
    )
    if replaces:
        first.kind, first.message, first.values, first.origin = later.kind, later.message, later.values, later.origin


def unwrap(wrapper: Failure, text: str, line: int) -> None:
    """Replace the exception in which Ray wraps the exception of a task, with its traceback in between."""
    found = reported(text)
    wrapper.kind = found.kind if found is not None else kinds()["exception"]
    wrapper.values = found.values if found is not None else {}
    wrapper.message, wrapper.last_line = text[:MESSAGE], line


def add_entry(entry: Failure, key: str, value: str, line: int) -> None:
    """Add a line of torchrun's summary to its process."""
    entry.last_line = line
    if key == "host":
        entry.origin.node = value or None
    if key == "rank" and (match := re.match(r"(\d+)(?: \(local_rank: (\d+)\))?", value)):
        entry.origin.rank, entry.origin.rank_by = int(match[1]), "printed"
        entry.origin.local_rank = int(match[2]) if match[2] else None
    if key == "exitcode" and (match := re.match(r"(-?\d+)(?: \(pid: (\d+)\))?", value)):
        entry.values |= {"exit_code": match[1], **({"pid": match[2]} if match[2] else {})}
    if key in ("rank", "exitcode") or (key == "traceback" and not value.startswith("To enable")):
        entry.message = f"{entry.message}, {key} {value}".removeprefix(", ")[:MESSAGE]


def count_repeated(failure: Failure) -> None:
    """Read how many processes of Ray printed a message that appears once."""
    if (repeated := _REPEATED.search(failure.message)) is not None:
        failure.message, failure.count = failure.message[: repeated.start()], int(repeated[1])
        failure.origin = Origin()


def add_about_actor(failure: Failure, text: str, line: int) -> bool:
    """Add the next line about an actor of Ray that died: its node, or why it is dead. Return whether it is one.

    A long message may go on in it: with the rest of the bracket that describes the actor, and its rank.
    """
    if match := _ACTOR_NODE.match(text):
        failure.origin.node = match["node"]
    elif line == failure.last_line + 1 and _OPEN.search(failure.message) and ")" in text:
        add_place(failure.origin, origin_of("", text, len(text)))
    elif line != failure.last_line + 1 or (found := reported(text)) is None or found.kind is not failure.kind:
        return False
    failure.message, failure.last_line = f"{failure.message}\n{text.strip()}"[:MESSAGE], line
    return True
