"""A log that is read while it grows ends with the tables of the log that is read at once, however it grew."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.forked_code import ForkedCode
from support.growing_files import IDLE_S, Job, pieces
from support.patience import wait_until
from support.reading import Reading, differences, read, sample

from perflog.errors import InputError
from perflog.ingestion import pipeline, watching
from perflog.ingestion.bulk import IngestTask, Outcome
from perflog.ingestion.following import State, follow, ingest_input
from perflog.ingestion.watching import Watching
from perflog.parsing.input.followed_file import Ending, FollowedFile, Patience
from perflog.parsing.input.growing_source import GrowingSource, whole_lines
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.spilled_input import SpilledInput
from perflog.tables.schema import TABLES
from perflog.tables.sink import IngestResult, MemorySink
from perflog.tables.store import Store

NAMES = ("moe_layer", "training_sweep", "pipeline_layers", "moe_layer_early")
APART = ("run", "log", "log_sha256")
SOME = examples(15)
MOE, SWEEP, EARLY = sample("moe_layer"), sample("training_sweep"), sample("moe_layer_early")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def tables(data: bytes) -> dict[str, Any]:
    """The tables of a log that is read at once."""
    return read(data).tables(*APART)


def stored(store: Path) -> dict[str, Any]:
    """The tables of a store."""
    kept = MemorySink({name: [Store(store).table(name)] for name in TABLES})
    return Reading(IngestResult("", ""), kept).tables(*APART)


def watch(job: Job, steps: list[int] | None = None) -> tuple[Ending, dict[str, Any]]:
    """Read a log while it grows; return why it ended, and its tables. `steps` gets the steps in the order seen."""
    kept = MemorySink()

    def observe(rows: Any, _: object) -> None:
        if steps is not None and "steps" in rows:
            steps.extend(rows["steps"]["step"].to_pylist())

    file = FollowedFile(str(job.path), job.patience())
    reader = Watching(str(job.path), file, job.patience(), None, observe, lambda: None, kept.reset)
    try:
        return reader.run(), Reading(IngestResult("", ""), kept).tables(*APART)
    finally:
        file.close()


def followed(job: Job, store: Path, until_idle: float | None = IDLE_S) -> list[State]:
    """Follow a log; return its states."""
    states: list[State] = []
    name = LogName.parse(str(job.path))
    follow(name, IngestTask(str(store)), job.patience(until_idle), threads=1, on_state=states.append)
    return states


@SOME
@given(
    name=st.sampled_from(NAMES), cuts=st.lists(st.integers(0, 1 << 20), max_size=5), head=st.sampled_from([0, 1 << 20])
)
def test_watching_ends_with_the_same_tables(name: str, cuts: list[int], head: int) -> None:
    data = sample(name)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "HEAD", head)  # 0: the log is read on, also while it is short
        job = Job(Path(folder) / "run.txt", pieces(data, cuts))
        ending, read_tables = watch(job)
    assert ending is Ending.IDLE
    assert differences(read_tables, tables(data)) == []


@SOME
@given(name=st.sampled_from(NAMES), cuts=st.lists(st.integers(0, 1 << 20), max_size=4))
def test_following_ends_with_the_same_tables(name: str, cuts: list[int]) -> None:
    data = sample(name)
    with tempfile.TemporaryDirectory() as folder:
        followed(Job(Path(folder) / "run.txt", pieces(data, cuts)), Path(folder) / "store")
        assert len(Store(Path(folder) / "store").logs()) == 1
        assert differences(stored(Path(folder) / "store"), tables(data)) == []


def test_steps_are_seen_before_the_log_ends(folder: Path) -> None:
    seen: list[int] = []
    early: list[int] = []
    lines = SWEEP.splitlines(keepends=True)
    job = Job(
        folder / "run.txt",
        [b"".join(lines[:48]), lambda: None, lambda: early.extend(seen), b"".join(lines[48:])],
    )
    watch(job, seen)
    assert early == list(range(7))


@pytest.mark.parametrize(("head", "readings"), [(25, 1), (26, 2), (50, 2), (51, 3), (76, 4)])
def test_a_long_log_is_read_on_from_where_reading_stopped(
    folder: Path, head: int, readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is shorter than its head is read again: more lines may show more formats."""
    read = list[int]()

    def counted(*given: Any, **options: Any) -> Any:
        read.append(1)
        return pipeline.ingest(*given, **options)

    monkeypatch.setattr(watching, "ingest", counted)
    monkeypatch.setattr(watching, "HEAD", head)
    lines = b"epoch 1 loss 2.5 acc 0.5\n", b"epoch 2 loss 2.4 acc 0.5\n", b"epoch 3 loss 2.3 acc 0.6\nepoch 4 loss"
    seen, whole = list[int](), b"".join(lines)
    assert {len(line) + 1 for line in whole.splitlines()[:3]} == {25}
    _, tables_seen = watch(Job(folder / "run.txt", lines), seen)
    assert (len(read), tables_seen) == (readings, tables(whole))


def test_an_unfinished_line_is_read_when_the_log_has_ended(folder: Path) -> None:
    data = MOE + MOE.splitlines()[-1]  # without a line feed at the end
    ending, read_tables = watch(Job(folder / "run.txt", pieces(data, [5000])))
    assert ending is Ending.IDLE
    assert differences(read_tables, tables(data)) == []


@pytest.mark.parametrize("text", [b"a\nbc", b"a\r", b"a\r\n", b"a\rb", b"ab", b"", b"a\n" + b"x" * 200_000, b"a\rb\r"])
def test_whole_lines_end_at_the_last_line_or_state_of_a_bar(folder: Path, text: bytes) -> None:
    path = folder / "run.txt"
    path.write_bytes(text)
    ends = [k for k in range(1, len(text) + 1) if text[k - 1 : k] == b"\n"]
    ends += [k for k in range(1, len(text)) if text[k - 1 : k] == b"\r" and text[k : k + 1] not in (b"\r", b"\n")]
    assert whole_lines(str(path)) == max(ends, default=0)


def test_states_of_a_progress_bar_keep_the_number_of_their_line(folder: Path) -> None:
    path = folder / "run.txt"
    path.write_bytes(b"one\n 1/3\r 2/3\r 3/")
    rest = iter([b"3\r\n", b"two\n"])

    def wait() -> bool:
        with path.open("ab") as file:
            return file.write(next(rest, b"")) > 0

    chunks = list(GrowingSource("run.txt", str(path), wait).chunks())
    assert [bytes(c.data[: c.size]) for c in chunks] == [b"one\n 1/3\n 2/3\n", b" 3/3\n", b"two\n"]
    assert [(c.first_line, c.lines) for c in chunks] == [(1, 1), (2, 1), (3, 1)]


def test_a_log_that_is_no_text_of_lines_is_not_watched(folder: Path) -> None:
    for data in (gzip.compress(MOE), b'{\n "a": 1,\n "b": 2\n', b'{"traceEvents": [\n'):
        with pytest.raises(InputError, match="while it grows"):
            watch(Job(folder / "run.txt", [data]))


# --- rotation, truncation, removal -----------------------------------------------------------------------------


def test_of_a_renamed_file_the_rest_is_read_then_the_new_one(folder: Path) -> None:
    path, old = folder / "run.txt", folder / "run.txt.1"

    def rotate() -> None:
        path.rename(old)
        path.write_bytes(SWEEP[:2000])

    def write_rest() -> None:
        with old.open("ab") as file:  # the job still has the old file open
            file.write(MOE[6000:])

    def write_new() -> None:
        with path.open("ab") as file:
            file.write(SWEEP[2000:])

    idle = [lambda: None] * 3
    states = followed(Job(path, [MOE[:6000], rotate, write_rest, *idle, write_new]), folder / "store")
    assert [state.ending for state in states if state.is_last] == [Ending.REPLACED, Ending.IDLE]
    both = {name: rows + tables(SWEEP).get(name, type(rows)()) for name, rows in tables(MOE).items()}
    both |= {name: rows for name, rows in tables(SWEEP).items() if name not in both}
    assert differences(stored(folder / "store"), both) == []


def test_a_removed_file_is_read_to_its_end(folder: Path) -> None:
    path = folder / "run.txt"

    def write_and_remove() -> None:
        with path.open("ab") as file:
            file.write(MOE[4000:])
        path.unlink()

    states = followed(Job(path, [MOE[:4000], write_and_remove]), folder / "store", until_idle=None)
    assert [state.ending for state in states if state.is_last] == [Ending.GONE]
    assert differences(stored(folder / "store"), tables(MOE)) == []


def test_watching_survives_rotation_and_truncation(folder: Path) -> None:
    path = folder / "run.txt"

    def rotate() -> None:
        path.rename(folder / "run.txt.1")
        path.write_bytes(SWEEP)

    job = Job(path, [MOE, rotate, *[lambda: None] * 3, lambda: path.write_bytes(EARLY)])
    kept = MemorySink()
    file = FollowedFile(str(path), job.patience())
    reader = Watching(str(path), file, job.patience(), None, lambda *_: None, lambda: None, kept.reset)
    for data, expected in ((MOE, Ending.REPLACED), (None, Ending.TRUNCATED), (EARLY, Ending.IDLE)):
        assert reader.run() is expected
        if data is not None:
            assert differences(Reading(IngestResult("", ""), kept).tables(*APART), tables(data)) == []
        file.open()
    file.close()


def test_after_a_kill_the_store_is_readable_and_the_next_ingest_is_right(folder: Path) -> None:
    path, store = folder / "run.txt", folder / "store"
    path.write_bytes(MOE[:9000])
    code = "follow(LogName.parse(sys.argv[1]), IngestTask(sys.argv[2]), Patience(0.001), threads=1)"
    for size in range(9500, len(MOE), 700):
        child = ForkedCode(Path(__file__), f"import sys\n{code}", str(path), str(store))
        wait_until(lambda: (store / "runs").is_dir() and any((store / "runs").iterdir()))
        with path.open("ab") as file:
            file.write(MOE[path.stat().st_size : size])
        child.kill()
        child.end()
        assert len(Store(store).logs()) == 1
        Store(store).table("steps")
    path.write_bytes(MOE)
    followed(Job(folder / "other.txt", [EARLY]), folder / "other")
    follow(LogName.parse(str(path)), IngestTask(str(store)), Patience(0.0, 0.0), threads=1)
    assert len(Store(store).logs()) == 1
    assert differences(stored(store), tables(MOE)) == []


def test_a_log_grows_since_the_state_before_the_command(folder: Path) -> None:
    states = followed(Job(folder / "run.txt", [MOE[:4000], MOE[4000:]]), folder / "store")
    last = states[-1].outcome
    assert isinstance(last, IngestResult)
    assert last.grown_by is None  # the store had no state of it
    (folder / "run.txt").write_bytes(MOE + b"\n")
    file = folder / "run.txt"
    follow(LogName.parse(str(file)), IngestTask(str(folder / "store")), Patience(0.0, 0.0), 1, None, states.append)
    last = states[-1].outcome
    assert isinstance(last, IngestResult)
    assert last.grown_by == 1


def test_nothing_but_a_file_grows(folder: Path) -> None:
    with pytest.raises(InputError, match="not a regular file"):
        FollowedFile(str(folder), Patience())
    with pytest.raises(InputError):
        FollowedFile(str(folder / "none.txt"), Patience())


# --- standard input --------------------------------------------------------------------------------------------


class Pipe:
    """Standard input into which a program writes a piece whenever the reader looks."""

    def __init__(self, deeds: Sequence[bytes | Exception | None]) -> None:
        reads, self._writes = os.pipe()
        self.input = SpilledInput(reads, interval=0.01)
        self._deeds = iter(deeds)
        self.steps: list[int] = []
        self.seen: list[int] = []  # number of steps that were seen, at each look
        self.look()

    def look(self) -> None:
        self.seen.append(len(self.steps))
        deed = next(self._deeds, None)
        if isinstance(deed, BaseException):
            raise deed
        if deed is None:
            os.close(self._writes)
        else:
            os.write(self._writes, deed)

    def observe(self, rows: Any, _: object) -> None:
        if "steps" in rows:
            self.steps.extend(rows["steps"]["step"].to_pylist())

    def ingest(self, store: Path) -> Outcome:
        return ingest_input(self.input, IngestTask(str(store)), 1, self.observe, self.look)


@SOME
@given(name=st.sampled_from(NAMES), cuts=st.lists(st.integers(0, 1 << 20), max_size=4))
def test_standard_input_ends_with_the_same_tables(name: str, cuts: list[int]) -> None:
    data = sample(name)
    with tempfile.TemporaryDirectory() as folder:
        pipe = Pipe([piece for piece in pieces(data, cuts) if piece])
        assert isinstance(pipe.ingest(Path(folder)), IngestResult)
        assert differences(stored(Path(folder)), tables(data)) == []
        assert not os.path.exists(pipe.input.path)


def test_steps_of_standard_input_are_seen_before_its_end(folder: Path) -> None:
    lines = SWEEP.splitlines(keepends=True)
    pipe = Pipe([b"".join(lines[:48]), b"".join(lines[48:60]), b"".join(lines[60:])])
    pipe.ingest(folder)
    assert pipe.seen[1] == 7


def test_standard_input_that_does_not_pause_is_read_once(folder: Path) -> None:
    pipe = Pipe([MOE])
    pipe.look()  # it has ended before it is looked at
    pipe.ingest(folder)
    assert pipe.steps == []
    assert differences(stored(folder), tables(MOE)) == []


def test_other_standard_input_is_read_when_it_has_ended(folder: Path) -> None:
    data = gzip.compress(MOE)
    assert isinstance(Pipe([data[:100], data[100:]]).ingest(folder), IngestResult)
    assert differences(stored(folder), tables(MOE)) == []


def test_an_interruption_stores_what_came(folder: Path) -> None:
    interruption: Any = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        Pipe([MOE, b"\n", interruption]).ingest(folder)
    assert differences(stored(folder), tables(MOE + b"\n")) == []
