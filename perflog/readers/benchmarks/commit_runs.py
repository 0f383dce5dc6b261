"""Histories of benchmarks as other programs keep them: runs of commits with a value for each benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.events.event_table import EventAccount, RunWriter
from perflog.readers.interface import Reader, ReadOptions
from perflog.readers.odd_numbers import finite
from perflog.tables.sink import IngestResult, Sink
from perflog.units import UNITS, unit_of

_LARGEST = 1 << 30  # bytes of a file, which is in memory as a whole
_MOST_MILLISECONDS = 4e12
_PER_CALL = ("op", "ops", "iter", "iteration", "call", "run", "loop")


class RecordsReader(Reader):
    """Reads files of JSON that have some keys in their first bytes."""

    own_keys: tuple[bytes, ...]
    head_bytes = 1 << 16

    def detect(self, source: Source) -> bool:
        """Return whether the file has the keys."""
        head = source.first_bytes(self.head_bytes)
        return all(key in head for key in self.own_keys)


class BenchmarkFigure(Struct, frozen=True):
    """The value of a benchmark: its position in the file, its name, its value, and its unit as it is written.

    A value with `dropped`, a reason, is not stored.
    """

    place: int
    name: str
    value: Any
    unit: str = ""
    dropped: str = ""


class CommitRun(Struct, frozen=True):
    """A run of the benchmarks of a program at a commit."""

    program: str | None
    config: Mapping[str, Any]
    figures: Sequence[BenchmarkFigure]
    dropped: Mapping[str, tuple[int, str]] = {}  # number of other figures, and why they are not stored, by name
    model: str | None = None


def document(source: Source, before: bytes = b"") -> Any:
    """Return the JSON of a file, after the given first bytes.

    Raises:
        InputError: It is no JSON, or too large.
    """
    text = _content(source)
    if before and text.startswith(before):
        text = text.partition(b"=")[2].strip().removesuffix(b";")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"the history cannot be read: {error}", source.name, "copy it again") from error


def documents(source: Source) -> list[object]:
    """Return the values of a JSON list, or of JSON lines; of another value, itself.

    Raises:
        InputError: It is no JSON, or too large.
    """
    text = _content(source)
    try:
        try:
            whole = msgspec.json.decode(text)
        except msgspec.DecodeError:
            whole = msgspec.json.Decoder().decode_lines(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"the records cannot be read: {error}", source.name, "copy it again") from error
    return whole if isinstance(whole, list) else [whole]


def _content(source: Source) -> bytes:
    if source.size() > _LARGEST:
        raise InputError("more than 1 GiB of benchmarks", source.name, "divide the file")
    return b"".join(map(bytes, source.blocks())).removeprefix(b"\xef\xbb\xbf").strip()


def write_runs(
    source: Source, sink: Sink, options: ReadOptions, format: str, runs: Iterable[CommitRun]
) -> IngestResult:
    """Write the runs of a file into a sink.

    Raises:
        InputError: There is none with a value.
    """
    label = options.label() if callable(options.label) else None
    with RunWriter(source.name, source.digest(), format, sink) as writer:
        number = 0
        for run in runs:
            if not run.figures:
                continue
            number += 1
            writer.begin(number)
            writer.write_dicts("values", list(_value_rows(run, writer.run, account := EventAccount())))
            writer.write_account(0, account)
            name = label.get(number) if label is not None else options.label
            first, last = run.figures[0].place, run.figures[-1].place
            writer.write_run(
                name if isinstance(name, str) else None, last, run.config, program=run.program, model=run.model,
                line=first, first_line=first,
            )  # fmt: skip
        if not number:
            raise InputError("no figures of benchmarks in this history", source.name, "nothing was measured yet")
        ingested = writer.ingested
    options.done(source)
    return ingested


def _value_rows(run: CommitRun, id: str, account: EventAccount) -> Iterable[dict[str, object]]:
    for figure in run.figures:
        value = finite(figure.value)
        account.add("read" if value is not None or figure.dropped else "unread", "benchmark", 1, figure.place)
        count = account.figures_of(figure.dropped or "value", figure.place, because=figure.dropped)
        if figure.dropped:
            count.dropped += 1
        elif value is None:
            count.unread += figure.value is not None  # a benchmark that failed has no value
        else:
            count.stored += 1
            unit, factor, rest = _unit(figure.unit)
            name = f"{figure.name} [{rest}]" if rest else figure.name
            yield {"run": id, "line": figure.place, "part": 0, "key": name, "value": value * factor, "unit": unit}
    for name, (number, reason) in run.dropped.items():
        if number:
            account.figures_of(name, run.figures[0].place, because=reason).dropped += number


def _unit(text: str) -> tuple[str | None, float, str]:
    """The base unit of a written one, its factor, and the written one where perflog has none. `ns/op` is a time."""
    written = " ".join(text.split())
    head, mark, per = written.partition("/")
    word = unit_of(head if mark and per.lower() in _PER_CALL else written)[0]
    if word in UNITS:
        unit = UNITS[word]
        return unit.base, unit.factor, ""
    return None, 1.0, written


def moment(milliseconds: object) -> str | None:
    """Return a time since 1970 as a string in UTC; None if the value is no time."""
    value = finite(milliseconds)
    if value is None or not 0 < value < _MOST_MILLISECONDS:
        return None
    return f"{datetime.fromtimestamp(math.floor(value / 1000), UTC):%Y-%m-%dT%H:%M:%SZ}"


def known(config: Mapping[str, object]) -> dict[str, object]:
    """Return settings without those that are not known."""
    return {name: value for name, value in config.items() if value not in (None, "")}
