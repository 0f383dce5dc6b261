"""Which small logs are read together, and what each of them gets of it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perflog.ingestion import together
from perflog.ingestion.together import read_together
from perflog.parsing.input.source import JoinedSource, Source
from perflog.tables.sink import MemorySink

if TYPE_CHECKING:
    import pytest

STEP = "step: {:2}  loss:  8.{:02}  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%\n"


def log(loss: int, steps: int = 2, first: str = "") -> str:
    return first + "".join(STEP.format(step, loss) for step in range(1, steps + 1))


@contextmanager
def opened(folder: Path, *texts: str) -> Iterator[list[Source]]:
    for number, text in enumerate(texts):
        (folder / f"{number}.log").write_text(text)
    yield [Source(f"{number}.log", str(folder / f"{number}.log")) for number in range(len(texts))]


def test_logs_that_look_alike_are_read_as_one(tmp_path: Path) -> None:
    """Lines are counted in each log; labels are given or by index of the run."""
    sink = MemorySink()
    with opened(tmp_path, log(1), log(2, 3), log(3, first="\n\n")) as sources:
        results = read_together(sources, ["mine", lambda: {1: "own"}, None], sink)
        digests = [source.digest() for source in sources]
    known = [result for result in results if result is not None]
    assert [result.log for result in known] == ["0.log", "1.log", "2.log"]
    assert [result.sha256 for result in known] == digests
    assert [result.tables["steps"] for result in known] == [2, 3, 2]
    assert [result.lines["total"] for result in known] == [2, 3, 4]
    assert all(result.formats == ["torchtitan"] for result in known)
    steps = sink.fetch("steps").to_pylist()
    ids = [f"{digest[:12]}-1" for digest in digests]
    assert [(ids.index(row["run"]), row["line"], row["step"]) for row in steps] == [
        (0, 1, 1), (0, 2, 2), (1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 3, 1), (2, 4, 2),
    ]  # fmt: skip
    assert sink.fetch("runs")["label"].to_pylist() == ["mine", "own", None]


def test_what_is_read_alone(tmp_path: Path) -> None:
    """Too few logs, or logs that do not look like the others."""
    for texts, alone in (
        ([log(1), log(2)], [0, 1]),
        ([log(1), "nothing\n", log(2), log(3)], [1]),
        ([log(1), "", log(2), log(3)], [1]),
        ([log(1), '{"traceEvents": []}', log(2), log(3)], [1]),
        # a line that is known in part, of less than a tenth, still shows a format later in a log
        ([log(k, 11) + "iter 5: loss 5.4983, time 337.52ms, mfu None\n" for k in (1, 2, 3)], [0, 1, 2]),
    ):
        sink = MemorySink()
        with opened(tmp_path, *texts) as sources:
            results = read_together(sources, [None] * len(texts), sink)
        assert [k for k, result in enumerate(results) if result is None] == alone, texts
        runs = len(sink.fetch("runs"))
        assert runs == len(texts) - len(alone)


def test_groups_are_of_small_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(log(1))
    texts = [log(1), log(2), "", log(3), log(4, 9), log(5)]
    for together_at_most, largest, groups in (
        (10**6, 10**6, [[0, 1, 3, 4, 5]]),
        (10**6, size, [[0, 1, 3, 5]]),
        (10**6, size - 1, [[]]),
        (2 * size, size, [[0, 1], [3, 5]]),
        (2 * size - 1, size, [[0], [1], [3], [5]]),
    ):
        monkeypatch.setattr(together, "_MOST_BYTES", together_at_most)
        monkeypatch.setattr(together, "_LARGEST", largest)
        with opened(tmp_path, *texts) as sources:
            (tmp_path / "2.log").write_bytes(gzip.compress(log(6).encode())[:-9])  # with a warning
            joined = JoinedSource("all", sources[:2])  # the files of a job are one log, and read alone
            found = [positions for positions, _ in together._candidates([*sources, joined])]
        assert found == groups


def test_the_log_of_each_row() -> None:
    runs = pa.chunked_array([pa.array(["3", "1", "3"]).dictionary_encode()])
    assert together._logs_of(pa.table({"run": runs}), np.array([7, 8, 9])).tolist() == [9, 7, 9]


def test_lines_of_each_log_are_counted_from_its_own_first_line(tmp_path: Path) -> None:
    """Also those of the run and of the account."""
    texts = [log(1, first="\nunread\n"), log(2, 3, first="\nunread\n"), log(3, first="\nunread\n")]
    sink = MemorySink()
    with opened(tmp_path, *texts) as sources:
        results = read_together(sources, [None] * 3, sink)
    assert all(result is not None for result in results)
    runs = sink.fetch("runs").to_pylist()
    assert [(row["first_line"], row["last_line"]) for row in runs] == [(3, 4), (3, 5), (3, 4)]
    lines = sink.fetch("lines").to_pylist()
    assert sorted((row["line"], row["count"]) for row in lines if row["status"] == "unread") == [(2, 1)] * 3
