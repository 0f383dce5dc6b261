"""Account of the arguments of Chrome trace events: stored in a table, dropped for a declared reason, or unread.

Every key of a piece is counted in its bytes (`key_counts`), and the columns show how many values they took: so an
argument that nobody declared is seen. Only then events are examined one by one: their numbers go to table `values`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from perflog.formats.figures import figure_spans
from perflog.formats.template import NUMBER
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.chrome.kinds import COMPUTED

FIELDS = frozenset(("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args"))
"""Fields of an event itself, which are no arguments."""

_JOINS = "joins events of the profiler"
_COMPUTED = "the profiler computes it from grid, block and device"
_ADDRESS = "address"
_VIEWER = "how a viewer draws or links events"

DROPPED = {
    **dict.fromkeys(
        (
            "Ev Idx", "Sequence number", "Fwd thread id", "Comms Id", "graph node id",
            "Python id", "Python parent id", "Python module id", "Python thread",
            "wait_on_cuda_event_id",
        ),
        _JOINS,
    ),
    **dict.fromkeys(("blocks per SM", "warps per SM", "est. achieved occupancy %"), _COMPUTED),
    **dict.fromkeys(("Input Tensors start", "Output Tensors start"), _ADDRESS),
    **dict.fromkeys(
        ("s", "bp", "cname", "id2", "scope", "sf", "esf", "bind_id", "flow_in", "flow_out", "sort_index"), _VIEWER
    ),
    "tts": "start on the clock of the thread",
    "cbid": "number of the call that `name` names",
    "kernel_details": "grid, block, registers and shared memory of the launch, as one string",
    "kernel": "name of the kernel that the call launches, printed again",
    "cuda_sync_kind": "kind of the synchronisation that `name` names",
    "memory bandwidth (GB/s)": "bytes / duration",
    "queued": "time in the driver's queue; 0, since the profiler does not ask for it",
    "Op count": "number of operators, counted by the profiler",
    "Device": "process of the operator, printed again",
    "external ts": "start of the operator, printed again",
}  # fmt: skip
"""Arguments that no table takes, each with the reason."""

_IS_NUMBER = lazy_pattern(NUMBER)
_HAS_DIGIT = lazy_pattern(r"\d")
_SAMPLE_CHARS = 120


class Figures(Struct):
    """Figures of one argument in a piece. `first`, `sample`: index and content of the first, if the argument is new."""

    stored: int = 0
    dropped: int = 0
    unread: int = 0
    first: int = 0
    sample: str = ""


class UndeclaredArguments(Struct):
    """Arguments that nobody declared.

    `numbers`: for each number the index of its event, the argument with the path inside it, and the value. `stored` and
    `unread`: number of figures by argument; a figure in a string is unread.
    """

    numbers: list[tuple[int, str, float]] = field(default_factory=list)
    stored: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)

    def add(self, place: int, argument: str, value: object) -> None:
        """Add the value of an argument of an event."""
        for path, leaf in _leaves(argument, value):
            if isinstance(leaf, str) and not _IS_NUMBER.fullmatch(leaf):
                self.unread[argument] += len(figure_spans(leaf)) if _HAS_DIGIT.search(leaf) else 0
                continue
            self.stored[argument] += 1
            self.numbers.append((place, path, float(leaf)))


def undeclared_arguments(events: Sequence[object], names: Collection[str]) -> UndeclaredArguments:
    """Return the arguments of these names of events, which are decoded JSON.

    Counters are left out, and what perflog computed when it exported the trace.
    """
    undeclared = UndeclaredArguments()
    for place, event in enumerate(events):
        if not isinstance(event, Mapping) or event.get("ph") == "C" or str(event.get("cat")).startswith(COMPUTED):
            continue
        args = event.get("args")
        levels = (event.items(), args.items() if isinstance(args, Mapping) else ())
        for is_field, items in zip((True, False), levels, strict=True):
            for name, value in items:
                if name in names and not (is_field and name in FIELDS):
                    undeclared.add(place, name, value)
    return undeclared


def account_of(
    counts: Mapping[str, int], taken: Mapping[str, int], undeclared: UndeclaredArguments
) -> dict[str, Figures]:
    """Return the figures of each argument.

    Args:
        counts: how often each argument occurs.
        taken: how many values of it are in a column.
        undeclared: what was found in arguments that nobody declared.
    """
    account: dict[str, Figures] = {}
    for name, count in counts.items():
        if name in DROPPED:
            account[name] = Figures(dropped=count)
        elif name in taken:
            account[name] = Figures(stored=taken[name], unread=max(count - taken[name], 0))
    for name in undeclared.stored | undeclared.unread:
        figures = account.setdefault(name, Figures())
        figures.stored += undeclared.stored[name]
        figures.unread += undeclared.unread[name]
    return {name: figures for name, figures in account.items() if figures != Figures()}


def sample_of(text: bytes | bytearray | memoryview, offset: int) -> str:
    """Return an argument and the start of its value, at an offset of a piece."""
    return " ".join(bytes(text[offset : offset + _SAMPLE_CHARS]).decode("utf-8", "replace").split())


def keys_of(value: object) -> Counter[str]:
    """Return how often each key occurs in decoded JSON."""
    counts: Counter[str] = Counter()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            counts.update(item.keys())
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return counts


def decoded_events(text: bytes | bytearray | memoryview) -> list[object]:
    """Return the events of a piece as plain objects; none where it is almost JSON."""
    try:
        events = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return events if isinstance(events, list) else []


def _leaves(path: str, value: object) -> Iterator[tuple[str, Any]]:
    """Give numbers and strings inside a value with their paths: `loads[3].tokens`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(f"{path}[{index}]", inner)
    elif isinstance(value, int | float | str) and not isinstance(value, bool):
        yield path, value
