"""Messages that a terminal wrapped at its width."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog

_MESSAGE = (
    "[rank{}]:[E424 01:11:21.160832730 ProcessGroupNCCL.cpp:629] [Rank {}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=4, OpType=BROADCAST, NumelIn=112, NumelOut=112, Timeout(ms)=1800000) ran for 1800010 "
    "milliseconds before timing out."
)


def wrapped(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def failures(tmp_path: Path, lines: list[str]) -> list[tuple[int, int, str, int | None, str | None]]:
    path = tmp_path / "run.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    table = perflog.read(path).table("failures").astype(object)
    table = table.where(table.notna(), None)
    names = ["line", "last_line", "kind", "rank", "op"]
    return [tuple(row) for row in table[names].itertuples(index=False)]


@pytest.mark.parametrize("width", [80, 100, 137, 200])
def test_a_message_in_lines_of_one_width_is_one(tmp_path: Path, width: int) -> None:
    parts = [wrapped(_MESSAGE.format(rank, rank), width) for rank in (2, 3)]
    count = len(parts[0])
    assert failures(tmp_path, [line for part in parts for line in part]) == [
        (1, count, "collective_timeout", 2, "BROADCAST"),
        (count + 1, 2 * count, "collective_timeout", 3, "BROADCAST"),
    ]


def test_the_label_is_in_the_line_before(tmp_path: Path) -> None:
    message = (
        "[rank6]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 6] "
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
        "collectives. This typically indicates a NCCL/CUDA API hang blocking the watchdog"
    )
    assert failures(tmp_path, wrapped(message, 116)) == [(1, 3, "stuck_watchdog", 6, None)]


def test_a_longer_line_shows_that_nothing_is_wrapped(tmp_path: Path) -> None:
    lines = wrapped(_MESSAGE.format(2, 2), 160)
    assert failures(tmp_path, [*lines, "x" * 161])[0][1:] == (1, "collective_timeout", 2, "BROADCAST")


def test_messages_of_one_length_stay_apart(tmp_path: Path) -> None:
    """Each ends its sentence, or the next line begins a message of its own."""
    lines = [_MESSAGE.format(2, 2), _MESSAGE.format(3, 3), "terminate called after throwing an instance of 'E'"]
    found = failures(tmp_path, lines)
    assert [row[:4] for row in found] == [
        (1, 1, "collective_timeout", 2),
        (2, 2, "collective_timeout", 3),
        (3, 3, "abort", None),
    ]
    assert [row[0] for row in failures(tmp_path, [line.rstrip(".") for line in lines])] == [1, 2, 3]
