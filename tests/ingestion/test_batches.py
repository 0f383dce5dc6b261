"""Batches of logs, each read by one process, and whether several processes pay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perflog.ingestion import workers
from perflog.ingestion.batches import in_batches, pay, size
from perflog.parsing.input.log_names import STDIN, LogName

if TYPE_CHECKING:
    import pytest


def logs(*sizes: int | str) -> list[LogName]:
    """Logs of these bytes, by number; a string is a name."""
    return [LogName.parse(given) if isinstance(given, str) else sized(k, given) for k, given in enumerate(sizes)]


def sized(number: int, count: int) -> LogName:
    return replace(LogName.from_file(f"{number}.log"), remote_size=count)


def divided(names: list[LogName], most_logs: int = 9, most_bytes: int = 100, processes: int = 1) -> list[list[str]]:
    return [[name.log for name in batch] for batch in in_batches(names, most_logs, most_bytes, processes)]


def sizes_of(parts: list[list[str]]) -> list[int]:
    return [len(part) for part in parts]


def test_a_batch_has_an_eighth_of_the_logs_of_a_process_at_most() -> None:
    assert sizes_of(divided(logs(*[1] * 16))) == [2] * 8
    assert sizes_of(divided(logs(*[1] * 16), processes=2)) == [1] * 16
    assert sizes_of(divided(logs(*[1] * 32), most_logs=3)) == [3] * 10 + [2]
    assert sizes_of(divided(logs(*[1] * 7))) == [1] * 7 and divided([]) == []


def test_a_batch_has_so_many_bytes_at_most() -> None:
    assert sizes_of(divided(logs(*[50] * 32))) == [2] * 16
    assert sizes_of(divided(logs(*[51] * 32))) == [1] * 32
    assert sizes_of(divided(logs(10, 500, 10, 10, *[0] * 28), most_logs=3)) == [1, 1, *[3] * 10]


def test_standard_input_is_a_batch_of_its_own() -> None:
    parts = divided(logs(1, STDIN, 1, *[1] * 29))
    assert parts[:3] == [["0.log"], [STDIN], ["2.log", "3.log", "4.log", "5.log"]]


def test_several_processes_pay_if_reading_takes_longer_than_their_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "START_SECONDS", 1.0)
    assert pay(logs(0, 10**8)) and not pay(logs(0, 95 * 10**6)) and not pay(logs(10**9))
    assert pay(logs(*[0] * 51)) and not pay(logs(*[0] * 50))


def test_the_bytes_of_a_log(tmp_path: Path) -> None:
    assert size(LogName.from_file(f"{tmp_path}/none")) == 0
    assert size(sized(0, 7)) == 7
    (tmp_path / "a").write_bytes(b"12345")
    assert size(LogName.from_file(str(tmp_path / "a"))) == 5
