"""Earlier states of a log in a store: of the same path, with the beginning of its bytes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.ingestion.earlier_states import History, Origins, history
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.tables.sink import IngestResult
from perflog.tables.store.runs_footer import Origin

NOW = "f" * 16


def source(size: int | None = 10, parts: int = 1) -> Any:
    """A log of which the first bytes have digests of their number: of 4 bytes, `4444...`."""
    return SimpleNamespace(
        parts=[None] * parts, length=lambda: size, digest=lambda: NOW + "f" * 48,
        digests_of_first=lambda sizes: {each: str(each) * 64 for each in sizes},
    )  # fmt: skip


def state(size: int) -> str:
    """The id of an earlier state of so many bytes."""
    return str(size) * 16


def found(path: str, known: dict[str, Origin], log: Any = None) -> History:
    return history(LogName.parse(path), log or source(), Origins(known))


def test_a_log_that_grew_has_its_earlier_states(tmp_path: Path) -> None:
    path = str(tmp_path / "a.log")
    known = {
        state(4): Origin((path,), 4), state(7): Origin((path,), 7), "a" * 16: Origin((path,), 5),  # other bytes
        "b" * 16: Origin((path,), 10), "c" * 16: Origin((path,), 12), state(3): Origin(("/other",), 3),
    }  # fmt: skip
    seen = found(path, known)
    assert seen.origin == Origin((path,), 10)
    assert seen.earlier == {state(4): 4, state(7): 7}
    assert seen.others == ("a" * 16, "b" * 16, "c" * 16)
    result = IngestResult("a", "0")
    seen.note(result)
    assert (result.others, result.grown_by) == (["a" * 16, "b" * 16, "c" * 16], 3)


def test_a_log_without_earlier_states_has_not_grown(tmp_path: Path) -> None:
    result = IngestResult("a", "0")
    found(str(tmp_path / "a.log"), {}).note(result)
    assert (result.others, result.grown_by) == ([], None)


def test_an_earlier_state_stays_as_long_as_another_file_has_it(tmp_path: Path) -> None:
    path, other = str(tmp_path / "a.log"), tmp_path / "b.log"
    known = {state(4): Origin((path, str(other)), 4)}
    assert found(path, known).earlier == {state(4): 4}
    other.touch()
    seen = found(path, known)
    assert (seen.earlier, seen.others) == ({}, (state(4),))
    assert found(path, {state(4): Origin((path, "s3://b/k"), 4)}).earlier == {}  # nobody asks whether it is there


def test_the_same_bytes_from_another_path_have_both(tmp_path: Path) -> None:
    path = str(tmp_path / "a.log")
    assert found(path, {NOW: Origin(("/b", path), 10)}) == History(Origin(("/b", path), 10))
    assert found(path, {NOW: Origin(("/b",), 10)}) == History(Origin(("/b", path), 10))


@pytest.mark.parametrize("log", [source(parts=2), source(None)])
def test_a_log_of_several_files_or_of_unknown_size_has_no_history(log: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "a.log")
    assert found(path, {state(4): Origin((path,), 4)}, log) == History()


def test_standard_input_has_no_history() -> None:
    assert found(STDIN, {state(4): Origin((STDIN,), 4)}) == History()


def test_a_path_is_known_from_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "a.log")
    seen = found("a.log", {state(4): Origin((path,), 4)})
    assert (seen.origin, seen.earlier) == (Origin((path,), 10), {state(4): 4})


def test_an_address_is_known_without_its_secrets() -> None:
    address = "https://host/a.log?token=..."
    seen = found("https://host/a.log?token=0a1b", {state(4): Origin((address,), 4)})
    assert (seen.origin, seen.earlier) == (Origin((address,), 10), {state(4): 4})
