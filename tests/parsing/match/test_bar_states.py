"""States of bars in log order: which are rows, what takes its step from them, and how they are cut from other text."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from support.reading import Reading, read

from perflog.formats.model import BarFields, Line
from perflog.formats.template import Template
from perflog.parsing.match.ordered import bar_states, bar_table
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS
from perflog.units import UNITS

DICT = "{{'loss': {loss}, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': {epoch}}}"


def state(count: int, total: int = 100, seconds: float = 2.5) -> str:
    elapsed = round(count * seconds)
    clock = f"{elapsed // 60:02d}:{elapsed % 60:02d}"
    return f" {100 * count // total}%|#         | {count}/{total} [{clock}<03:40,  {seconds:.2f}s/it]"


def dict_of(count: int, per_epoch: float = 100) -> str:
    return DICT.format(loss=f"{3 - count / 100:.4f}", epoch=round(count / per_epoch, 2))


def steps_of(got: Reading, *columns: str) -> list[tuple[object, ...]]:
    return [
        tuple(row[name] for name in columns) for row in sorted(got.rows("steps"), key=lambda r: (r["line"], r["part"]))
    ]


def unread(got: Reading) -> int:
    return sum(row["figures_unread"] for row in got.rows("lines"))


# --- steps of dictionaries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["behind", "in front", "both", "lost returns"])
def test_a_dictionary_takes_its_step_from_the_bar_beside_it(way: str) -> None:
    parts = []
    for count in range(10, 60, 10):
        front, behind = f"\r{state(count)}\r{' ' * 40}\r", f"\r{state(count)}"
        lines = {
            "behind": f"{dict_of(count)}\n{behind}\n",
            "in front": f"{front}{dict_of(count)}\nsaved\n",
            "both": f"{front}{dict_of(count)}\n{behind}",
            "lost returns": f"{state(count)}      {dict_of(count)}\nsaved\n",
        }
        parts.append(lines[way])
    got = read("".join(parts).encode())
    assert {row["format"] for row in got.rows("runs")} == {"hf_trainer"}
    expected = [(10 * k, 25.0 * k, round(3 - k / 10, 4), 10, 1) for k in range(1, 6)]
    assert steps_of(got, "step", "elapsed_s", "loss", "steps_averaged", "copy") == expected
    assert [row[0] for row in steps_of(got, "step_time_s")] == [None, 2.5, 2.5, 2.5, 2.5]
    rates = {
        row["step"]: (row["value"], row["unit"]) for row in got.rows("values") if row["key"] == "smoothed_s_per_it"
    }
    assert rates == dict.fromkeys(range(10, 60, 10), (2.5, "s"))
    assert unread(got) == 0


def test_states_that_disagree_give_no_step() -> None:
    log = "".join(f"\r{state(k - 1)}\r{dict_of(k)}\n\r{state(k)}" for k in (10, 20, 30))
    assert steps_of(read(log.encode()), "step") == [(None,)] * 3


def test_a_count_that_contradicts_the_printed_epoch_gives_no_step() -> None:
    log = "".join(f"\r{state(k)}\r{dict_of(k)}\n\r{state(k)}" for k in (10, 20, 30)) + f"\r{state(70)}\r{dict_of(40)}\n"
    assert steps_of(read(log.encode()), "step") == [(10,), (20,), (30,), (None,)]


def test_the_bar_of_an_evaluation_gives_no_step() -> None:
    evaluation = "{'eval_loss': 1.5, 'eval_runtime': 4.5, 'epoch': 0.2}"
    log = (
        f"\r{state(10)}\r{dict_of(10)}\n\r{state(10)}\r{state(20)}\r{dict_of(20)}\n\r{state(20)}"
        f"\r{state(1, 3)}\r{state(3, 3)}\r{evaluation}\n\r{state(20)}\r{state(30)}\r{dict_of(30)}\n"
    )
    got = read(log.encode())
    assert steps_of(got, "step") == [(10,), (20,), (30,)]
    assert {row["step"] for row in got.rows("values") if row["key"] == "eval_loss"} == {20}


def test_two_ranks_take_the_steps_of_their_own_bars() -> None:
    log = "".join(
        f"[rank{rank}]:{dict_of(count)}\n[rank{rank}]:{state(count)}\n"
        for count in (10, 20, 30)
        for rank, count in ((0, count), (1, count - 5))
    )
    got = read(log.encode())
    assert steps_of(got, "rank", "step") == [(0, 10), (1, 5), (0, 20), (1, 15), (0, 30), (1, 25)]


def test_two_bars_without_labels_give_no_step() -> None:
    log = "".join(f"{state(k)}\n{dict_of(k)}\n{state(k - 7)}\n" for k in (10, 20, 30))
    assert steps_of(read(log.encode()), "step") == [(None,)] * 3


def test_a_timer_behind_a_state_belongs_to_its_step() -> None:
    head = "[2025-01-01 10:00:20,000] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0"
    log = "".join(
        f" {k}%|#     | {k}/100 [00:{k}<03:00,  2.{k}s/it]{head} time (ms) | forward: {k}.00 | backward: 7{k}.00\n"
        for k in (10, 11)
    )
    got = read(log.encode())
    assert steps_of(got, "step", "elapsed_s") == [(10, 10), (11, 11)]
    assert sorted((row["step"], row["phase"], row["time_s"]) for row in got.rows("phases")) == [
        (10, "backward", 0.71), (10, "forward", 0.01), (11, "backward", 0.711), (11, "forward", 0.011),
    ]  # fmt: skip


def test_messages_of_an_engine_belong_to_the_step_that_the_next_state_ends() -> None:
    woke = "INFO 06-10 10:11:12 [executor_base.py:226] It took 0.1{k} seconds to wake up tags {{'weights'}}.\n"
    log = f"{state(0)}" + "".join(f"{woke.format(k=k)}{dict_of(k)}\n{state(k)}\n" for k in (1, 2, 3))
    got = read(log.encode())
    assert steps_of(got, "step") == [(1,), (2,), (3,)]
    times = [(row["step"], row["value"], row["unit"]) for row in got.rows("values") if row["key"] == "wake_up_time"]
    assert sorted(times) == [(1, 0.11, "s"), (2, 0.12, "s"), (3, 0.13, "s")]


# --- which states are rows --------------------------------------------------------------------------------------------


def test_the_first_state_at_each_count_is_a_row() -> None:
    states = [(0, 9.0), (1, 2.5), (1, 2.4), (2, 2.4), (2, 2.3), (4, 2.1)]
    log = "".join(f"\r {k}%|#   | {k}/100 [00:0{k}<03:00, 0.50s/it, loss={loss}]" for k, loss in states) + "\n"
    got = read(log.encode())
    assert steps_of(got, "step", "loss", "copy") == [(1, 2.5, 1), (2, 2.4, 1), (4, 2.1, 1)]
    assert unread(got) == 0
    assert sum(row["figures_dropped"] for row in got.rows("lines")) > 0


def test_a_later_state_at_a_count_is_kept_if_it_has_more_figures() -> None:
    bar = "\rEpoch 1: {k}%|##| {k}/100 [00:{k:02d}<00:45, 1.98it/s, loss={loss}{more}]"
    log = (
        bar.format(k=50, loss=2.5, more="") + bar.format(k=99, loss=2.4, more="") + bar.format(k=99, loss=2.3, more="")
    )
    got = read((log + bar.format(k=99, loss=2.4, more=", val_loss=2.75") + "\n").encode())
    assert steps_of(got, "step", "loss") == [(50, 2.5), (99, 2.4)]
    assert [(row["step"], row["value"]) for row in got.rows("values") if row["key"] == "val_loss"] == [(99, 2.75)]


def test_a_bar_of_loading_keeps_few_states() -> None:
    log = "".join(f"\rLoading: {k // 100}%|#   | {k}/10000 [00:01<00:03, 100.00it/s]" for k in range(1, 10_001)) + "\n"
    got = read(log.encode())
    counts = sorted(row["value"] for row in got.rows("values") if row["key"] == "Loading")
    assert counts[0] == 1
    assert counts[-1] == 10_000
    assert len(counts) < 100
    assert unread(got) == 0


def test_bars_of_several_processes_and_passes_keep_few_states() -> None:
    bar = "\rLoading: {k}%|#   | {k}/100 [00:{t:02d}<00:03, 9.00it/s]"
    mixed = "".join(bar.format(k=max(k - lag, 1), t=k // 9) for k in range(1, 101) for lag in (0, 3, 1, 7))
    got = read(f"{mixed}\n".encode())
    assert len([row for row in got.rows("values") if row["key"] == "Loading"]) < 60
    twice = "".join(bar.format(k=k, t=0) for _ in range(2) for k in (0, 50, 100))
    counts = [row["value"] for row in read(f"{twice}\n".encode()).rows("values") if row["key"] == "Loading"]
    assert counts == [50, 100, 50, 100]


def test_states_of_a_bar_are_no_steps_where_the_program_prints_its_steps() -> None:
    log = "".join(
        f"\rTraining: 1%|#   | {k}/300 [00:01<00:03, 1.00it/s]\nstep {7 * k} loss 2.{k}\n" for k in range(1, 5)
    )
    got = read(log.encode())
    assert steps_of(got, "step") == [(7,), (14,), (21,), (28,)]
    assert sorted(row["value"] for row in got.rows("values") if row["key"] == "bar") == [1, 2, 3, 4]


def test_the_rows_do_not_depend_on_the_chunks() -> None:
    log = "".join(f"\r{state(k)}\r{' ' * 30}\r{dict_of(k)}\n\r{state(k)}" for k in range(1, 40)).encode()
    whole = steps_of(read(log), "step", "loss", "elapsed_s")
    for size in (150, 400, 1000):
        assert steps_of(read(log, chunk=size), "step", "loss", "elapsed_s") == whole


def test_whole_seconds_of_a_bar_give_step_times_over_twenty_seconds() -> None:
    states = [(k, int(k * 2.4)) for k in range(1, 41)]
    log = (
        "".join(f"\r {k}%|# | {k}/100 [{t // 60:02d}:{t % 60:02d}<03:00, 2.40s/it, loss=2.5]" for k, t in states) + "\n"
    )
    rows = [(step, time) for step, time in steps_of(read(log.encode()), "step", "step_time_s") if time is not None]
    assert [step for step, _ in rows] == [10, 19, 28, 37]
    assert [time for _, time in rows] == pytest.approx([2.4] * 4, rel=0.05)


def test_a_bar_that_begins_again_in_each_epoch_tells_nothing_of_the_whole_run() -> None:
    epochs = [(epoch, k) for epoch in (1, 2) for k in (10, 20, 30)]
    log = "".join(f"Epoch {epoch}: {k}%|# | {k}/30 [00:{k}<00:10, 1.00it/s, loss=2.5]\n" for epoch, k in epochs)
    got = read(log.encode())
    assert steps_of(got, "epoch", "step", "copy", "elapsed_s") == [(epoch, k, 1, k) for epoch, k in epochs]
    assert [row["elapsed_s"] for row in got.rows("runs")] == [None]


KERAS = "100/100 [==============================] - 5s 50ms/step - loss: {loss} - val_loss: {val_loss}"


def test_each_epoch_of_a_bar_that_is_printed_when_it_is_complete() -> None:
    lines = []
    for epoch, loss in enumerate(("2.3010", "2.1010", "nan"), 1):
        lines += [f"Epoch {epoch}/3", KERAS.format(loss=loss, val_loss="2.0000")]
    got = read("\n".join(lines).encode())
    assert steps_of(got, "line", "epoch", "step", "copy") == [(2 * k, k, 100, 1) for k in (1, 2, 3)]
    assert [row["loss"] for row in got.rows("steps")][:2] == [2.301, 2.101]
    assert [row["line"] for row in got.rows("values") if row["key"] == "val_loss"] == [2, 4, 6]


def test_a_complete_bar_that_is_drawn_again_at_once_is_one_state() -> None:
    got = read("\n".join([KERAS.format(loss="2.3010", val_loss="2.0000")] * 2).encode())
    assert steps_of(got, "line", "step") == [(1, 100)]


# --- figures that are set after the step is counted -------------------------------------------------------------------

_STEPS = range(1, 7)


def _bar(count: int, seconds: float, loss: float | None) -> str:
    rate = "?s/it" if loss is None else "15.00s/it"
    after = "" if loss is None else f", loss={loss:.4f}"
    return f"steps:  {count:2d}%|#         | {count}/96 [00:{seconds:02.0f}<21:14, {rate}{after}]\n"


def _counted_first(label: str = "", seconds: float = 9) -> str:
    """Each step is counted, which draws the bar with the loss of the step before, and its loss is set then."""
    losses = {k: 0.5 + k / 100 for k in _STEPS}
    states = [(k, k * seconds, losses.get(j)) for k in _STEPS for j in (k - 1, k)]
    return "".join(label + _bar(*state) for state in states)


def test_the_loss_that_is_set_after_a_step_is_counted_is_its_loss() -> None:
    assert steps_of(read(_counted_first().encode()), "step", "loss")[1:] == [(k, 0.5 + k / 100) for k in _STEPS][1:]


def test_the_loss_that_is_set_before_a_step_is_counted_is_its_loss() -> None:
    states = [(k, j * 9, 0.5 + j / 100) for k in range(6) for j in (k, k + 1) if j]
    got = read("".join(_bar(*state) for state in states).encode())
    assert steps_of(got, "step", "loss") == [(k, 0.5 + k / 100) for k in range(1, 6)]


@pytest.mark.parametrize("size", [16, 60, 90, 150, 200, 333])
@pytest.mark.parametrize("label", ["", "[rank3]: "])
def test_bars_that_are_drawn_twice_may_be_cut_by_the_chunks(label: str, size: int) -> None:
    text = _counted_first(label).encode()
    whole, cut = read(text), read(text, chunk=size)
    assert whole.rows("steps") == cut.rows("steps")
    assert whole.rows("values") == cut.rows("values")


# --- the functions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "epoch", "known", "lengths"),
    [
        (100, None, (5, 9), (5, 9)), (100, -1.0, (5, 9), (5, 9)), (100, math.inf, (5, 9), (5, 9)),
        (100, 1.0, (0, math.inf), (99 / 1.005, 101 / 0.995)), (100, 0.5, (0, math.inf), (99 / 0.505, 101 / 0.495)),
        (100, 0.125, (0, math.inf), (99 / 0.1255, 101 / 0.1245)), (100, 2.0, (0, math.inf), (98 / 2.005, 102 / 1.995)),
        (5, 0.005, (0, math.inf), (4 / 0.0055, 6 / 0.0045)), (0, 0.0, (3, 7), (3, 7)),
        (100, 1.0, (100, 100), (100, 100)), (100, 1.0, (102, 200), None), (100, 1.0, (5, 98), None),
        (5, 1e-05, (0, math.inf), (4 / 0.00501, math.inf)),
    ],
)  # fmt: skip
def test_steps_in_an_epoch_that_a_count_allows(
    count: int, epoch: float | None, known: tuple[float, float], lengths: tuple[float, float] | None
) -> None:
    found = bar_states._lengths(count, epoch, known)
    assert found == (None if lengths is None else pytest.approx(lengths))


def drawn(count: int, total: int = 100, elapsed: float = 9.0, time: float = 2.0, **more: Any) -> bar_table.State:
    return bar_table.State(more.pop("position", 5 << PART_BITS), count, total, elapsed, time, True, **more)


@pytest.mark.parametrize(
    ("state", "replaces"),
    [
        (drawn(3, shown=(1, 2.5)), True), (drawn(4, shown=(1, 2.5)), False),
        (drawn(3, elapsed=10.0, shown=(1, 2.5)), False),
        (drawn(3, time=0.5, shown=(1, 2.5)), False), (drawn(3, time=math.nan, shown=(1, 2.5)), False),
        (drawn(3, shown=(2, 2.5)), False), (drawn(3, shown=(1, 3.5)), False),
    ],
)  # fmt: skip
def test_a_state_with_newer_figures_replaces_the_row_of_its_count(state: bar_table.State, replaces: bool) -> None:
    bar = bar_states._Bar(3, 9.0, shown=(1, 3.5), stale=7)
    assert bar_states._replaces(state, bar) == replaces
    bar.stale = -1
    assert not bar_states._replaces(state, bar)


@pytest.mark.parametrize(
    ("state", "line", "is_next"),
    [(drawn(100), 3, True), (drawn(100), 4, False), (drawn(99), 3, False), (drawn(100, total=101), 3, False)],
)
def test_a_complete_bar_without_a_clock_may_be_complete_again(state: bar_table.State, line: int, is_next: bool) -> None:
    bar = bar_states._Bar(100, line=line)
    keras = Line("x", Template("{n:d}"), bar=BarFields("n", "all", "", "rate", True))
    assert bar_states._is_next_pass(keras, state, bar) == is_next
    timed = Line("x", Template("{n:d}"), bar=BarFields("n", "all", "elapsed", "rate", True))
    assert not bar_states._is_next_pass(timed, state, bar)
    assert not bar_states._is_next_pass(Line("x", Template("{n:d}")), state, bar)


@pytest.mark.parametrize(
    ("states", "epoch", "total", "count"),
    [
        ([drawn(7)], None, -1, 7), ([drawn(7), drawn(7)], None, -1, 7), ([drawn(7), drawn(8)], None, -1, None),
        ([drawn(7, total=50), drawn(8)], None, -1, None), ([drawn(7, total=50), drawn(8)], None, 100, 8),
        ([], None, -1, None),
    ],
)  # fmt: skip
def test_states_beside_a_line_agree(
    states: list[bar_table.State], epoch: float | None, total: int, count: int | None
) -> None:
    stream = bar_states._Stream(total=total)
    found = bar_states._agreeing(stream, states, epoch)
    assert (found.count if found else None) == count
    assert stream.count == (count if count is not None else -1)


def test_an_epoch_decides_between_two_states_once_its_length_is_known() -> None:
    stream = bar_states._Stream()
    assert bar_states._agreeing(stream, [drawn(50)], 0.5) is not None
    found = bar_states._agreeing(stream, [drawn(60), drawn(75)], 0.75)
    assert found is not None and (found.count, stream.count, stream.total) == (75, 75, 100)
    assert bar_states._agreeing(bar_states._Stream(), [drawn(60), drawn(75)], 0.75) is None


def test_a_step_beside_the_count_is_the_step() -> None:
    """Torchtune prints the epoch and the step before a bar that begins again with each epoch, and draws it again."""
    line = "{}|{}|Loss: 2.5: 50%|#####     | {}/2 [0{}:00<01:00, 60.00s/it]\n"
    states = [(1, 1, 1), (1, 2, 2), (1, 2, 2), (2, 3, 1), (2, 4, 2), (2, 4, 2)]
    got = read("".join(line.format(epoch, step, k, k) for epoch, step, k in states).encode())
    assert [(row["line"], row["step"], row["step_time_s"]) for row in got.rows("steps")] == [
        (1, 1, None), (2, 2, 60.0), (4, 3, None), (5, 4, 60.0),
    ]  # fmt: skip
    assert got.rows("runs")[0]["format"] == "torchtune"


def test_the_last_batch_decides_all() -> None:
    batch: Any = SimpleNamespace(chunk=SimpleNamespace(is_last=True))
    assert not bar_states.BarReader(False).undecided([], batch)


@pytest.mark.parametrize(
    ("counts", "losses", "rates", "labels", "near", "stale"),
    [
        ([3], [2.5], [2.0], [-1], [True], True),
        ([3], [2.5], [0.5], [-1], [True], False),  # a bar that may be drawn late anyway
        ([2, 3], [2.5, 2.5], [2.0, 2.0], [-1, -1], [False, True], True),  # with the figures of the step before
        ([2, 3], [2.5, 2.25], [2.0, 2.0], [-1, -1], [False, True], False),
        ([3, 3], [2.5, 2.5], [2.0, 2.0], [-1, -1], [False, True], False),  # the same state
        ([2, 9, 3], [2.5, 7.5, 2.5], [2.0, 2.0, 2.0], [0, 1, 0], [False, False, True], True),  # another rank between
        ([2, 3, 9], [2.5, 2.25, 7.5], [2.0, 2.0, 2.0], [0, 0, 1], [False, True, True], True),  # of rank 1 the first one
        ([2, 3, 9], [2.5, 2.25, 7.5], [2.0, 2.0, 2.0], [0, 0, 1], [False, True, False], False),
    ],
)
def test_the_last_state_of_a_batch_may_have_the_figures_of_the_step_before(
    counts: list[int], losses: list[float], rates: list[float], labels: list[int], near: list[bool], stale: bool
) -> None:
    line = Line("bar", Template("{n:d} {rate:f} {loss:f}"), table="steps", unit={"rate": UNITS["s"]},
                bar=BarFields("n", "", "", "rate", True))  # fmt: skip
    columns = {"n": np.array(counts), "rate": np.array(rates), "loss": np.array(losses)}
    records = Records(np.arange(len(counts)), columns, np.array(labels))
    reader = bar_states.BarReader(True)
    assert reader._ends_stale(line, 4, records, np.array(near)) is stale
    no_figures = replace(line, template=Template("{n:d} {loss:f} {rate:f}"))
    assert not reader._ends_stale(no_figures, 4, records, np.array(near))


@pytest.mark.parametrize(
    ("table", "is_printed", "undecided"), [("steps", False, True), ("steps", True, False), ("values", False, False)]
)
def test_a_state_of_a_step_at_the_end_of_a_batch_waits_for_the_next(
    table: str, is_printed: bool, undecided: bool
) -> None:
    line = Line("bar", Template("{n:d} {rate:f} {loss:f}"), table=table, unit={"rate": UNITS["s"]},
                bar=BarFields("n", "", "", "rate", True))  # fmt: skip
    columns = {"n": np.array([3]), "rate": np.array([2.0]), "loss": np.array([2.5])}
    chunk = SimpleNamespace(is_last=False, first_line=1, lines=10_000)
    reader = bar_states.BarReader(is_printed)
    for number, is_near in ((10_000, True), (1, False)):
        batch: Any = SimpleNamespace(chunk=chunk, records={0: Records(np.array([number << PART_BITS]), columns)})
        assert reader.undecided([(None, line)], batch) is (undecided and is_near)  # type: ignore[list-item]


def test_the_lengths_of_epochs_are_those_of_one_bar() -> None:
    """A lower count begins the next run, another total another bar."""
    for count, total, is_kept in ((60, 100, True), (40, 100, False), (60, 200, False)):
        stream = bar_states._Stream()
        assert bar_states._agreeing(stream, [drawn(50)], 0.5) is not None
        known = stream.lengths
        stream.total = 100 if total == 100 else -1
        assert bar_states._agreeing(stream, [drawn(count, total)], None) is not None
        assert (stream.lengths == known) is is_kept, (count, total)


def test_a_line_within_a_step_belongs_to_the_next_count_of_the_bar_of_training() -> None:
    def after_step(*counts: int, total: int = 100, known: int = 100) -> int | None:
        reader = bar_states.BarReader(False)
        reader._streams = {0: bar_states._Stream(total=known)}
        states = [drawn(count, total, position=k << PART_BITS) for k, count in enumerate(counts, 1)]
        table: Any = SimpleNamespace(states={0: states}, positions={0: np.array([each.position for each in states])})
        found = reader._state_after_step((len(counts) << PART_BITS) - 1, 0, table)
        assert reader._state_after_step((len(counts) << PART_BITS) - 1, 1, table) is None  # another rank
        return found.count if found is not None else None

    assert after_step(3, 4) == 4 and after_step(1) == 1
    assert after_step(3, 5) is after_step(2) is None
    assert after_step(3, 4, total=50) is after_step(3, 4, known=-1) is None


def test_no_line_is_within_a_step_after_the_last_state() -> None:
    reader = bar_states.BarReader(False)
    reader._streams = {0: bar_states._Stream(total=100)}
    table: Any = SimpleNamespace(states={0: [drawn(3)]}, positions={0: np.array([5 << PART_BITS])})
    assert reader._state_after_step(6 << PART_BITS, 0, table) is None
