"""A log that grows is stored again and again, up to whole lines, at a bounded share of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from perflog.errors import InputError, StoreError
from perflog.ingestion import following
from perflog.ingestion.bulk import IngestTask
from perflog.ingestion.following import State, follow
from perflog.parsing.input.followed_file import Ending, Patience
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.source import Source
from perflog.tables.sink import IngestResult


class Time:
    """A clock, and what happens at some of its seconds."""

    def __init__(self, events: Mapping[int, Callable[[], object]]) -> None:
        self.now = 0.0
        self.events = events

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.events.get(round(self.now), lambda: None)()


def followed(
    path: Path,
    events: Mapping[int, Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
    takes: float = 0.0,
    until_idle: float = 5.0,
    failure: Exception | None = None,
    is_new: bool = False,
) -> tuple[list[tuple[int, int]], list[State]]:
    """Follow a log. Return the time and the number of bytes of each reading, and the states."""
    time, readings, states = Time(events), list[tuple[int, int]](), list[State]()

    def ingest_log(name: LogName, *_: object, opened: object, **__: object) -> object:
        size: int = opened.size()  # type: ignore[attr-defined]
        readings.append((round(time.now), size))
        time.now += takes
        before = readings[-2][1] if len(readings) > 1 else None if is_new else 1
        return failure or IngestResult(name.log, "", grown_by=None if before is None else size - before)

    monkeypatch.setattr(following, "ingest_log", ingest_log)
    patience = Patience(until_idle=until_idle, sleep=time.sleep, clock=lambda: time.now)
    follow(LogName.parse(str(path)), IngestTask("store"), patience, on_state=states.append)
    return readings, states


def test_each_state_ends_with_a_whole_line_but_for_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntw")
    with log.open("ab", buffering=0) as file:
        events = {2: lambda: file.write(b"o\n"), 4: lambda: file.write(b"three")}
        readings, states = followed(log, events, monkeypatch)
    assert readings == [(0, 4), (2, 8), (9, 13)]
    assert [(state.ending, state.is_last) for state in states] == [(None, False), (None, False), (Ending.IDLE, True)]


def test_a_reading_is_followed_by_a_rest_of_nine_times_its_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    with log.open("a", buffering=1) as file:
        events = dict.fromkeys(range(3, 40), lambda: file.write("more\n"))
        readings, _ = followed(log, events, monkeypatch, takes=2.0)
    times = [time for time, _ in readings]
    assert [b - a for a, b in pairwise(times[:-1])] == [20] * (len(times) - 2)
    assert readings[-1][1] == log.stat().st_size


def test_growth_counts_from_before_all_readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    with log.open("a", buffering=1) as file:
        events = {2: lambda: file.write("two\n"), 4: lambda: file.write("three\n")}
        _, states = followed(log, events, monkeypatch)
    outcomes = [state.outcome for state in states]
    assert [outcome.grown_by for outcome in outcomes if isinstance(outcome, IngestResult)] == [3, 7, 13, 13]
    with log.open("a", buffering=1) as file:
        _, states = followed(log, {2: lambda: file.write("four\n")}, monkeypatch, is_new=True)
    outcomes = [state.outcome for state in states]
    assert [outcome.grown_by for outcome in outcomes if isinstance(outcome, IngestResult)] == [None] * 3


def test_how_a_log_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a truncated one nothing is left; what follows, and another file at the path, are logs of their own."""
    log = tmp_path / "log"
    log.write_text("one\n")
    readings, states = followed(log, {2: log.unlink}, monkeypatch)
    assert (readings[-1][1], states[-1].ending) == (4, Ending.GONE)
    log.write_text("one\ntwo\n")
    readings, states = followed(log, {2: lambda: log.write_text("new\n")}, monkeypatch)
    assert [size for _, size in readings] == [8, 4]
    assert [state.ending for state in states if state.is_last] == [Ending.TRUNCATED, Ending.IDLE]

    def rotate() -> None:
        log.rename(tmp_path / "log.1")
        log.write_text("another\n")

    readings, states = followed(log, {2: rotate}, monkeypatch)
    assert [size for _, size in readings] == [4, 8]
    assert [state.ending for state in states if state.is_last] == [Ending.REPLACED, Ending.IDLE]


def test_an_interruption_stores_the_log_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")

    def interrupt() -> None:
        with log.open("a") as file:
            file.write("half")
        raise KeyboardInterrupt

    states: list[State] = []
    sizes: list[int] = []

    def ingest_log(*_: object, opened: Source, **__: object) -> InputError:
        sizes.append(opened.size())
        return InputError("nothing yet", "log")

    monkeypatch.setattr(following, "ingest_log", ingest_log)
    time = Time({2: interrupt})
    patience = Patience(sleep=time.sleep, clock=lambda: time.now)
    with pytest.raises(KeyboardInterrupt):
        follow(LogName.parse(str(log)), IngestTask("store"), patience, on_state=states.append)
    assert [(state.ending, state.is_last) for state in states] == [(None, False), (None, True)]
    assert sizes == [4, 8]


def test_an_error_of_the_store_ends_it_and_one_of_the_log_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("one\n")
    with pytest.raises(StoreError):
        followed(log, {}, monkeypatch, failure=StoreError("full", "store"))
    readings, states = followed(log, {}, monkeypatch, failure=InputError("nothing yet", "log"))
    assert len(readings) == 1 and isinstance(states[-1].outcome, InputError)
    log.write_text("")
    readings, states = followed(log, {}, monkeypatch)
    assert (readings, [(state.outcome, state.ending) for state in states]) == ([], [(None, Ending.IDLE)])
