"""Annotated steps as windows of a device: they touch, do not overlap, and hold the work that they launched."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import rows
from support.trace_tables import by_hand, kernel, step

from perflog.metrics import device_time
from perflog.metrics.traces.device_steps import NO_STEPS, TraceSteps, on_device
from perflog.tables.columns import NULL


def test_work_that_runs_outside_of_its_step() -> None:
    """A step launches work that runs after it: the step lasts until that is done, or the next one's work begins."""
    work = [kernel(50, 100, step=1), kernel(100, 130, step=1), kernel(110, 160, step=1, stream=8)]
    work.append(kernel(180, 190, step=2))
    found = rows(device_time(by_hand([*work, step(1, 0, 120), step(2, 120, 200)])), part="step")
    assert [round(r["outside_s"] * 1e9) for r in found] == [40, 0]
    assert [round(r["span_s"] * 1e9) for r in found] == [160, 40]
    assert [round(r["busy_s"] * 1e9) for r in found] == [110, 10]
    overlapping = [kernel(50, 170, step=1), kernel(150, 260, step=2, stream=8)]
    found = rows(device_time(by_hand([*overlapping, step(1, 0, 120), step(2, 120, 200)])), part="step")
    assert [round(r["span_s"] * 1e9) for r in found] == [150, 110]
    assert [round(r["idle_s"] * 1e9) for r in found] == [50, 0]


def test_work_from_before_the_first_step_is_no_time_of_it() -> None:
    """The device lags behind the host: each step begins with its own work, and several in a row lose nothing."""
    work = [kernel(-50, 40), kernel(40, 140, step=1), kernel(140, 240, step=2)]
    found = rows(device_time(by_hand([*work, step(1, 0, 100), step(2, 100, 200)])), part="step")
    assert [(round(r["span_s"] * 1e9), round(r["idle_s"] * 1e9)) for r in found] == [(100, 0), (100, 0)]


def steps_of(*windows: tuple[int, int, int]) -> TraceSteps:
    """Steps of numbers, begins and ends."""
    numbers, starts, ends = (np.array(column, np.int64) for column in zip(*windows, strict=True))
    return TraceSteps(numbers, starts, ends, np.arange(len(numbers)))


def windows_of(annotated: TraceSteps, *work: tuple[int, int, int | None]) -> list[tuple[int, int]]:
    """The windows of steps on a device with work of begins, ends and the numbers of steps."""
    begins, ends = (np.array([piece[i] for piece in work], np.int64) for i in (0, 1))
    launched_in = np.array([NULL if piece[2] is None else piece[2] for piece in work], np.int64)
    found = on_device(annotated, begins, ends, launched_in)
    assert found.numbers.tolist() == annotated.numbers.tolist() and found.lines is annotated.lines
    return list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))


TWO = steps_of((7, 0, 100), (3, 100, 200))


def test_a_step_lasts_as_long_as_its_work() -> None:
    assert windows_of(TWO, (10, 50, 7), (110, 150, 3)) == [(0, 100), (100, 200)]
    assert windows_of(TWO, (10, 130, 7), (140, 150, 3)) == [(0, 130), (130, 200)]
    assert windows_of(TWO, (10, 130, 7), (120, 250, 3)) == [(0, 120), (120, 250)]  # work of the next ends it
    assert windows_of(TWO, (10, 130, 7), (50, 60, 3)) == [(0, 100), (100, 200)]  # not before the host has left it


def test_a_step_begins_when_earlier_work_is_done() -> None:
    assert windows_of(TWO, (-10, 30, None), (40, 50, 7), (110, 150, 3)) == [(30, 100), (100, 200)]
    assert windows_of(TWO, (-10, 30, None), (20, 50, 7), (110, 150, 3)) == [(20, 100), (100, 200)]  # its own begins
    assert windows_of(TWO, (-10, 130, None), (140, 145, 7)) == [(130, 145), (145, 200)]
    assert windows_of(TWO, (0, 30, None), (40, 50, 7)) == [(0, 100), (100, 200)]  # it began with the step
    assert windows_of(TWO, (-20, 30, None), (-10, 20, 99), (40, 50, 7)) == [(30, 100), (100, 200)]


def test_work_without_a_known_step_leaves_steps_as_annotated() -> None:
    assert windows_of(TWO, (10, 130, None)) == [(0, 100), (100, 200)]
    assert on_device(NO_STEPS, *(np.zeros(1, np.int64) for _ in range(3))) is NO_STEPS


PIECES = st.lists(st.tuples(st.integers(-20, 60), st.integers(0, 30), st.sampled_from([None, 1, 2, 3, 9])), max_size=8)


@given(PIECES, st.lists(st.integers(0, 60), min_size=4, max_size=4, unique=True))
def test_windows_in_a_row_touch_and_do_not_overlap(pieces: list[tuple[int, int, int | None]], cuts: list[int]) -> None:
    a, b, c, d = sorted(cuts)
    work = sorted([(start, start + length, number) for start, length, number in pieces], key=lambda piece: piece[0])
    found = windows_of(steps_of((2, a, b), (1, b, c), (3, c, d)), *work) if work else []
    for (start, end), (following, _) in pairwise(found):
        assert start <= end == following or following > end
    if found:
        assert all(end >= host for (_, end), host in zip(found, (b, c, d), strict=True))
        last = [end for _, end, number in work if number == 3]
        assert found[-1][1] == max([d, *last, found[-2][1]])
