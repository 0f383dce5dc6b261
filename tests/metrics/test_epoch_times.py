"""Times of epochs: of lines that name one, of bars, and what is no time of an epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.metrics_logs import by_hand, rows

import perflog
from perflog.analysis.overview import overview
from perflog.metrics import Tables, epochs
from perflog.metrics.series.epoch_times import _by_name, _count_on, epoch_times

_TIMES = (86.0, 83.4, 84.3, 84.1, 84.7, 82.8, 104.6, 83.4, 83.1, 83.3)


Read = Callable[[str], perflog.Log]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str) -> perflog.Log:
        (tmp_path / "run.log").write_text(text)
        return perflog.read(str(tmp_path / "run.log"))

    return read_text


def times(log: perflog.Log) -> list[tuple[object, object]]:
    rows = [row for rows in epoch_times(Tables(log)).values() for row in rows]
    return [(row["epoch"], row["time_s"]) for row in rows]


@pytest.mark.parametrize(
    "line",
    [
        "Epoch {e}/10 | train_loss: 2.3014 | val_acc: 0.5301 | time: {t:.1f}s",
        "Epoch {e}/10 finished in {t:.1f}s, loss=2.3000",
        "epoch {e} took {t:.1f} s",
        "2026-02-03 10:05:40 INFO Training epoch {e}/10 completed. Loss: 1.1500. Epoch time: {t:.2f} seconds",
    ],
)
def test_a_time_on_the_line_of_an_epoch(read: Read, line: str) -> None:
    log = read("".join(f"{line.format(e=e, t=t)}\n" for e, t in enumerate(_TIMES, 1)))
    assert times(log) == list(enumerate(_TIMES, 1))


def test_all_columns(read: Read) -> None:
    log = read("".join(f"Epoch {e}/10 finished in {t:.1f}s, loss=2.3000\n" for e, t in enumerate(_TIMES, 1)))
    (run,) = log.runs["run"]
    found = rows(epochs(log))
    assert {(row["run"], row["by"], row["name"]) for row in found} == {(run, "name", found[0]["name"])}
    assert [(row["epoch"], row["time_s"], row["line"]) for row in found] == [
        (e, t, e) for e, t in enumerate(_TIMES, 1)
    ]  # fmt: skip


def test_the_slowest_of_the_ranks(read: Read) -> None:
    """A label that a program prints is no word of the line."""
    both = [f"[rank{r}] Epoch {e} | loss 2.3 | epoch_time {t + r}.5s\n" for e, t in ((1, 75), (2, 90)) for r in (0, 1)]
    assert times(read("".join(both))) == [(1, 76.5), (2, 91.5)]


def test_the_slowest_rank_may_be_missing(read: Read) -> None:
    """A torn line is no faster epoch."""
    rows = [f"[rank{r}] Epoch {e} | loss 2.3 | epoch_time {75 + 20 * r}.5s\n" for e in range(4) for r in (0, 1)]
    assert times(read("".join(rows[:5] + rows[6:]))) == [(0, 95.5), (1, 95.5), (3, 95.5)]


@pytest.mark.parametrize("first", [84, 900])
def test_a_clock_that_counts_on_is_of_no_epoch(read: Read, first: int) -> None:
    """The first epoch may have compiled."""
    line = "Epoch {}/5 | loss: 2.3 | {}: {}s\n"
    clock = [(e + 1, first + 84 * e + e % 2) for e in range(5)]
    assert times(read("".join(line.format(e, "time", t) for e, t in clock))) == []
    if first == 900:
        assert times(read("".join(line.format(e, "epoch_time", t) for e, t in clock)))


def test_a_moment_is_no_time(read: Read) -> None:
    line = "epoch: {} loss: 2.3 time: {:.3f} s\n"
    assert times(read("".join(line.format(e, 1714249802.259 - 90 * e) for e in range(3)))) == []


def test_bars_that_are_printed_at_their_ends_alone(read: Read) -> None:
    """Each epoch has a bar of its own, and three bars are more than three steps."""
    bar = "Epoch {}: 100%|####| 782/782 [01:2{}<00:00,  9.10it/s, train_loss=2.3]\n"
    log = read("".join(bar.format(e, t) for e, t in enumerate((5, 3, 4))))
    assert times(log) == [(0, 85.0), (1, 83.0), (2, 84.0)]
    assert "2,346 steps (3 printed)" in overview(log).what


def test_keras_prints_the_mean_time_of_a_step(read: Read) -> None:
    bar = "391/391 [==============================] - 84s 214ms/step - loss: 2.3"
    log = read(f"Epoch 1/2\n{bar}\nEpoch 2/2\n{bar.replace('214', '220')}\n")
    assert [time for _, time in times(log)] == pytest.approx([83.674, 86.02])


def test_the_overview_has_the_epoch_and_its_outliers(read: Read) -> None:
    shown = overview(read("".join(f"Epoch {e}/10 | loss: 2.3 | time: {t}s\n" for e, t in enumerate(_TIMES, 1))))
    assert [figure.name for figure in shown.figures] == ["epoch", "loss"]
    assert [*shown.figures[0].values.values()] == pytest.approx([83.75])
    assert "Far from the median epoch of 83.8 s: epoch 7 105 s." in shown.reasons


@pytest.mark.parametrize(
    ("seconds", "is_certain", "counts_on"),
    [
        ([1.0], False, False),
        ([2.0, 1.0, 9.0], False, False),
        ([1.0, 1.1, 9.0], True, True),
        ([1.0, 1.125, 1.25, 1.375], True, False),
        ([1.0, 1.125, 1.25, 1.375], False, True),
        ([1.0, 1.0625, 1.3125, 1.375], False, False),
    ],
)
def test_times_that_grow_to_several_times_the_first_count_on(
    seconds: list[float], is_certain: bool, counts_on: bool
) -> None:
    assert _count_on(np.array(seconds), is_certain) == counts_on


def test_a_time_of_steps_on_the_line_of_an_epoch_is_none_of_the_epoch() -> None:
    """It only says that it is a time; a name with the epoch in it is believed."""
    rows = [
        {"key": key, "value": value, "unit": unit, "step": 10 * e, "line": e, "rank": None}
        for e in range(1, 5)
        for key, value, unit in (
            ("epoch", float(e), None),
            ("time", 5.0 + e % 2, "s"),
            ("epoch_time", 7.0 + e % 2, "s"),
        )
    ]
    alone = [row for row in rows if row["key"] != "epoch_time"]
    assert _by_name(Tables(by_hand("values", alone)), "r") == []
    assert [row["time_s"] for row in _by_name(Tables(by_hand("values", rows)), "r")] == [8.0, 7.0, 8.0, 7.0]
    unnumbered = [row | {"step": None} for row in alone]
    assert [row["time_s"] for row in _by_name(Tables(by_hand("values", unnumbered)), "r")] == [6.0, 5.0, 6.0, 5.0]


def test_lines_of_epochs_in_the_log_of_steps(tmp_path: Path) -> None:
    """fairseq: `train_wall` is of all steps since the line before, `wall` a clock; an epoch repeats no step."""
    of = "loss=5.5, ppl=9, wps=57300, ups=1.49, wpb=60051, bsz=2117, num_updates={0}, lr=2e-05, gnorm=3.2"
    inner = f"| INFO | train_inner | epoch 001:    {{0}} / 500 {of}, train_wall=45, wall={{1}}\n"
    epoch = "| INFO | train | epoch 001 | loss 5.6 | wps 57 | num_updates 500 | lr 2e-05 | train_wall 226 | wall 333\n"
    text = "".join(inner.format(step, step * 2 // 3) for step in range(100, 501, 100)) + epoch
    (tmp_path / "fairseq.log").write_text(text)
    log = perflog.read(tmp_path / "fairseq.log")
    assert "Times that each line prints by name, medians: train_wall 45 s." in perflog.overview(log).reasons
    assert "steps-repeated" not in set(perflog.lint(log)["code"])
