"""Event files of TensorBoard: scalars of both generations, texts, step times, and files that are torn or damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.history_files import event, event_file, field, record, single
from support.paths import TESTS
from support.reading import proof_of

import perflog
from perflog.metrics import steps

DATA = TESTS / "traces" / "history"
BEGAN = 1700000000.0


def simple(tag: str, value: float) -> bytes:
    return field(1, tag) + single(2, value)


def tensor(tag: str, *parts: bytes) -> bytes:
    return field(1, tag) + field(8, b"".join(parts))


def read(path: Path, content: bytes) -> perflog.Log:
    path.write_bytes(content)
    return perflog.read(path)


def test_a_file_of_tensorboardx() -> None:
    log = perflog.read(DATA / "simple_values.tfevents")
    assert log.line_account == {"total": 13, "read": 11, "context": 1, "unread": 1}
    values = log.arrow("values").select(["line", "step", "key", "value", "text"]).to_pylist()
    assert [tuple(row.values()) for row in values[2:4]] == [
        (4, 10, "train/loss", 2.9000000953674316, None), (5, 10, "lr", 0.0010000000474974513, None),
    ]  # fmt: skip
    assert tuple(values[-1].values()) == (12, 0, "note/text_summary", None, "hello 3")
    rows = (
        log.arrow("steps")
        .select(["line", "step", "loss", "step_time_s", "steps_averaged", "step_time_from"])
        .to_pylist()
    )
    assert [tuple(row.values()) for row in rows[:2]] == [
        (2, 0, 3.0, None, None, None), (4, 10, 2.9000000953674316, 0.5, 10, 2),
    ]  # fmt: skip
    (unread,) = (row for row in log.arrow("lines").to_pylist() if row["status"] == "unread")
    assert (unread["shape"], unread["count"]) == ("histogram", 1)
    assert log.figure_account == {"total": len(values) + 1, "stored": len(values), "dropped": 0, "unread": 1}


def test_a_file_of_tensors() -> None:
    """The second generation of summaries: a scalar is a tensor of one element."""
    log = perflog.read(DATA / "tensors.tfevents")
    values = log.arrow("values").select(["step", "key", "value"]).to_pylist()
    assert [tuple(row.values()) for row in values] == [(100 * s, "epoch_loss", 2.5 - s) for s in range(4)]
    assert log.arrow("steps")["step_time_s"].to_pylist() == [None, 0.0025, 0.0025, 0.0025]
    assert log.line_account == {"total": 5, "read": 4, "context": 1, "unread": 0}


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        ([field(1, 1), field(5, struct.pack("<f", 1.5))], 1.5),
        ([field(1, 2), field(6, struct.pack("<d", 0.1))], 0.1),
        ([field(1, 3), field(7, 7)], 7.0),
        ([field(1, 9), field(10, -5)], -5.0),
        ([field(1, 9), field(4, struct.pack("<q", 1 << 40))], float(1 << 40)),
        ([field(1, 19), field(13, 0x3E00)], 1.5),
        ([field(1, 14), field(13, 0x3FC0)], 1.5),
        ([field(1, 14), field(4, b"\xc0\x3f")], 1.5),  # bfloat16, as bytes
        *(
            ([field(1, dtype), field(4, struct.pack(f"<{form}", 7))], 7.0)
            for dtype, form in ((3, "i"), (4, "B"), (5, "h"), (6, "b"), (17, "H"), (19, "e"), (22, "I"), (23, "Q"))
        ),
        ([field(1, 10), field(11, 1)], 1.0),
        ([field(1, 3), field(7, b"\x07\x08")], 7.0),  # packed
        ([field(1, 3), field(2, field(2, field(1, 1))), field(7, 7)], 7.0),
        ([field(1, 1)], 0.0),
    ],
)
def test_tensors_of_each_type(tmp_path: Path, parts: list[bytes], value: float) -> None:
    log = read(tmp_path / "t", event_file(event(BEGAN, 1, tensor("t", *parts))))
    assert log.arrow("values")["value"].to_pylist() == [value]


@pytest.mark.parametrize(
    "parts",
    [
        (field(1, 1), field(2, field(2, field(1, 2))), field(5, bytes(8))),
        (field(1, 1), field(4, bytes(8))),  # without a shape
        (field(1, 8), field(4, bytes(8))),  # a complex number
        (field(1, 8),),
        (field(1, 7), field(8, "a"), field(8, "b")),
    ],
)
def test_a_tensor_of_several_elements_or_of_an_unknown_type_is_unread(tmp_path: Path, parts: tuple[bytes, ...]) -> None:
    log = read(tmp_path / "t", event_file(event(BEGAN, 1, tensor("t", *parts))))
    assert log.line_account == {"total": 2, "read": 0, "context": 1, "unread": 1}


def test_what_is_no_figure_is_named(tmp_path: Path) -> None:
    values = [field(1, "x") + field(number, b"") for number in (4, 5, 6, 99)]
    scalar = field(1, "x") + single(2, 1.5)
    log = read(tmp_path / "t", event_file(*(event(BEGAN, k, value) for k, value in enumerate([*values, scalar]))))
    lines = [row for row in log.arrow("lines").to_pylist() if row["count"]]
    account = {row["shape"]: (row["status"], row["count"]) for row in lines}
    assert account == {
        "file version": ("context", 1), "image": ("context", 1), "histogram": ("unread", 1), "audio": ("context", 1),
        "empty": ("context", 1), "scalar": ("read", 1),
    }  # fmt: skip


def test_step_times_by_the_time_of_logging(tmp_path: Path) -> None:
    events = [event(BEGAN + 3 + 0.25 * s, s, simple("loss", 4 - s), simple("val/loss", 9.0)) for s in range(4)]
    log = read(tmp_path / "t", event_file(*events))
    rows = log.arrow("steps").select(["step", "loss", "elapsed_s", "step_time_s"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 4.0, 3.0, None), (1, 3.0, 3.25, 0.25), (2, 2.0, 3.5, 0.25), (3, 1.0, 3.75, 0.25),
    ]  # fmt: skip
    assert log.arrow("runs")["elapsed_s"].to_pylist() == [3.75]
    assert steps(log)["median_s"].dropna().tolist()[0] == 0.25
    assert log.arrow("values")["elapsed_s"].to_pylist() == [3.0, 3.0, 3.25, 3.25, 3.5, 3.5, 3.75, 3.75]


def test_a_torn_file_loses_its_last_record_only(tmp_path: Path) -> None:
    events = [event(BEGAN + s, s, simple("loss", 1.0)) for s in range(5)]
    log = read(tmp_path / "t", event_file(*events)[:-3])
    assert log.arrow("values")["step"].to_pylist() == [0, 1, 2, 3]
    assert [text.split(": ", 1)[1] for text in log.warnings] == ["record 6: torn record"] and log.line_account[
        "unread"
    ] == 1


def test_a_damaged_record_is_unread(tmp_path: Path) -> None:
    events = [event(BEGAN + s, s, simple("loss", 1.0)) for s in range(3)]
    spoiled = bytearray(events[1])
    spoiled[-6] ^= 1
    log = read(tmp_path / "t", event_file(events[0], bytes(spoiled), events[2]))
    assert log.arrow("values")["step"].to_pylist() == [0, 2]
    assert [text.split(": ", 1)[1] for text in log.warnings] == ["record 3: damaged record"]


def test_what_is_no_event_file(tmp_path: Path) -> None:
    with pytest.raises(perflog.PerflogError):
        read(tmp_path / "t", record(b"\x12\x03abc"))


@pytest.mark.parametrize("began", [float("nan"), float("inf"), -1e300])
@pytest.mark.parametrize("later", [BEGAN + 1, float("nan"), 1e300])
def test_times_that_no_clock_has(tmp_path: Path, began: float, later: float) -> None:
    events = [event(began, -(2**63), simple("loss", 2.0)), event(later, 2**63 - 1, simple("loss", 1.0))]
    log = read(tmp_path / "events.out.tfevents.1", b"".join(events))
    steps = log.arrow("steps").to_pylist()
    assert [row["loss"] for row in steps] == [2, 1]
    assert steps[0]["printed_ns"] is None and steps[1]["step_time_s"] is None


def test_the_proof_is_the_version_of_the_file() -> None:
    assert proof_of(DATA / "simple_values.tfevents") == [(1, "event", "brain.Event:2")]
