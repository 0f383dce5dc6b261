"""Durations that are printed as text: in seconds, to the last digit, where the text or its name says that it is one."""

from __future__ import annotations

import json

import pytest
from support.reading import Reading, read

from perflog.formats.durations import is_duration, names_duration, print_duration, seconds
from perflog.formats.template import Template

SECONDS = {
    "0:00:24": 24.0,
    "1:02:03.5": 3723.5,
    "120:03:04.25": 432184.25,
    "1 day, 2:03:04": 93784.0,
    "11 days, 13:14:32": 998072.0,
    "1-02:03:04": 93784.0,
    "2h3m": 7380.0,
    "1h 42m 22s": 6142.0,
    "02d07h54m43s": 201283.0,
    "2m27.989997625s": 147.989997625,
    "1 minute 49 seconds": 109.0,
    "20 days 23 hours 27 minutes 50 seconds": 1812470.0,
    "7 minutes and 58.6 seconds": 478.6,
    "51s 253ms": 51.253,
    "1h 2m 3 s 79 ms": 3723.079,
}
ROWS = ("line", "step", "key", "value", "text", "unit")


def rows(got: Reading) -> list[tuple[object, ...]]:
    """Return the rows of table `values`, line by line."""
    return sorted((tuple(row[name] for name in ROWS) for row in got.rows("values")), key=lambda row: (row[0], row[2]))


@pytest.mark.parametrize("text", SECONDS)
def test_seconds_of_a_text(text: str) -> None:
    assert is_duration(text)
    assert seconds(text) == SECONDS[text]
    assert Template("took {time:h}, then").match(f"took {text}, then") == {"time": SECONDS[text]}


@pytest.mark.parametrize("text", ["5:37", "10:61:00", "12m", "24", "2024-05-01 10:00:00", "1:02:03:04", "3 m", "h2m"])
def test_texts_that_are_no_durations(text: str) -> None:
    assert not is_duration(text)


@pytest.mark.parametrize("value", [0.0, 24.0, 3723.5, 93784.000001, 86400.0])
def test_a_duration_is_printed_as_python_prints_it(value: float) -> None:
    assert seconds(print_duration(value)) == value
    assert Template("took {time:h}").render({"time": value}) == f"took {print_duration(value)}"


def test_names_that_say_so() -> None:
    named = (
        "elapsed",
        "elapsed_time",
        "ETA",
        "train_runtime",
        "Training time",
        "timeElapsed",
        "time left",
        "duration_total",
    )
    others = ("time", "start_time", "end time", "timestamp", "datetime", "beta", "local_time", "last checkpoint time")
    assert all(map(names_duration, named))
    assert not any(map(names_duration, others))


def test_a_key_and_a_text_in_json() -> None:
    log = (
        '{"step": 1, "loss": 2.5, "train_time": "0:00:12", "eta": "N/A", "time": "10:00:00"}\n'
        '{"step": 2, "loss": 2.25, "train_time": "1 day, 0:00:22", "eta": "0:15:24", "time": "10:00:10"}\n'
        '{"step": 3, "loss": 2.0, "train_time": "later", "eta": "2h3m", "time": "10:00:20"}\n'
    )
    got = read(log.encode())
    assert rows(got) == [
        (1, 1, "train_time", 12.0, None, "s"), (2, 2, "eta", 924.0, None, "s"),
        (2, 2, "train_time", 86422.0, None, "s"), (3, 3, "eta", 7380.0, None, "s"),
    ]  # fmt: skip
    assert rows(read(log.encode(), chunk=1)) == rows(got)


def test_a_clock_of_text_gives_step_times() -> None:
    line = (
        '{{"current_steps": {}, "total_steps": 774, "loss": 1.25, "lr": 5e-06, "epoch": 0.5, "elapsed_time": "{}"}}\n'
    )
    evaluation = (
        '{"current_steps": 20, "total_steps": 774, "eval_loss": 1.5, "epoch": 0.5, "elapsed_time": "0:00:30"}\n'
    )
    got = read(
        (line.format(10, "0:00:12") + line.format(20, "0:00:22") + evaluation + line.format(30, "1:00:40")).encode()
    )
    steps = [(row["step"], row["elapsed_s"], row["step_time_s"], row["step_time_from"]) for row in got.rows("steps")]
    assert steps == [(10, 12.0, None, None), (20, 22.0, 1.0, 1), (30, 3640.0, 361.0, 3)]
    assert [row["steps_averaged"] for row in got.rows("steps")] == [10, 10, 10]
    (run,) = got.rows("runs")
    assert (json.loads(run["config"]), run["elapsed_s"]) == ({"total_steps": 774}, 3640.0)


def test_meters() -> None:
    log = (
        "INFO step 10/100 loss 2.5 elapsed 0:00:24 lr 0.1\n"
        "INFO step 20/100 loss 2.25 elapsed 2:00:24 lr 0.1\n"
        "Training time: 2h3m12.5s train_loss=2.0\n"
        "[10:23:45] step 30/100 loss 2.0 start time: 10:23:45\n"
    )
    assert rows(read(log.encode())) == [
        (1, 10, "elapsed", 24.0, None, "s"), (2, 20, "elapsed", 7224.0, None, "s"),
        (3, None, "Training_time", 7392.5, None, "s"), (3, None, "train_loss", 2.0, None, None),
    ]  # fmt: skip


def test_a_table_of_a_file() -> None:
    log = 'step,loss,elapsed_time,start_time\n1,2.5,0:00:24,10:23:45\n2,2.25,"1 day, 0:00:24",10:23:46\n'
    assert rows(read(log.encode())) == [
        (2, 1, "elapsed_time", 24.0, None, "s"), (2, 1, "start_time", None, "10:23:45", None),
        (3, 2, "elapsed_time", 86424.0, None, "s"), (3, 2, "start_time", None, "10:23:46", None),
    ]  # fmt: skip


def test_a_padded_clock_is_written_as_slurm_prints_it() -> None:
    template = Template("took {time:08h}")
    for text in ("took 00:05:16", "took 13-06:23:40", "took 1-00:00:00"):
        values = template.match(text)
        assert values is not None and template.render(values) == text
