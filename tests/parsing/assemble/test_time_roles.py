"""What the times beside a step are: what the lines of a log show of them, and the roles that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.reading import read

from perflog.formats.families.step_parts import STEP_TIME
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.steps import time_roles as module
from perflog.parsing.assemble.steps.time_roles import CLOCK, VALUE, GivenRoles, TimeRoles, fitting, line_with
from perflog.parsing.assemble.steps.timer_lines import PART, STEP
from perflog.units import UNITS


def evidence(*parts: Sequence[float], steps: Sequence[int] | None = None, epochs: Sequence[int] | None = None) -> Any:
    """What the values of one rank show, given in several parts."""
    made, first = module._Evidence(), 0
    for values in parts:
        span = slice(first, first + len(values))
        first = span.stop
        at = np.array(range(1, 1000)[span] if steps is None else steps[span])
        of = np.zeros(len(values), np.int64) if epochs is None else np.array(epochs[span])
        made.add(0, np.zeros(len(values), np.int64), at, of, np.array(values, np.float64))
    return made


def counted(of: Any) -> tuple[int, int, int, float, float]:
    return of.pairs, of.rises, of.falls, of.growth, of.base


def test_rises_and_falls() -> None:
    assert counted(evidence([1.0, 2.0, 2.0, 5.0])) == (3, 2, 0, 4.0, 3.0)
    assert counted(evidence([1.0, 3.0, 2.0, 5.0])) == (2, 2, 1, 5.0, 1.0 + 2.0)  # it begins again at 2
    assert counted(evidence([1.0])) == (0, 0, 0, 0, 0)
    repeats = evidence([1.0, 9.0, 2.0, 9.0], steps=[1, 1, 2, 2])  # the first value of each step counts
    assert counted(repeats) == (1, 1, 0, 1.0, 1.0)
    assert counted(evidence([1.0, 2.0, 3.0], steps=[5, 4, 6])) == (1, 1, 0, 1.0, 2.0)  # an earlier step is no pair
    assert counted(evidence([1.0, 2.0, 3.0], epochs=[0, 0, 1])) == (1, 1, 0, 1.0, 1.0)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_values_may_come_in_parts(cut: int) -> None:
    values = [1.0, 3.0, 2.0, 5.0]
    assert counted(evidence(values[:cut], values[cut:])) == counted(evidence(values))


def test_differences_to_the_step_before() -> None:
    made = module._Evidence()
    steps, epochs = np.array([1, 1, 2, 3]), np.zeros(4, np.int64)
    found = made.add(0, np.zeros(4, np.int64), steps, epochs, np.array([1.0, 1.5, 4.0, 3.0]))
    assert np.array_equal(found, [np.nan, np.nan, 3.0, np.nan], equal_nan=True)
    found = made.add(0, np.array([1, 0]), np.array([5, 4]), np.zeros(2, np.int64), np.array([9.0, 3.5]))
    assert np.array_equal(found, [np.nan, 0.5], equal_nan=True)  # of the other rank it is the first
    found = made.add(0, np.array([0, 1, 0]), np.array([5, 6, 6]), np.zeros(3, np.int64), np.array([4.5, 9.25, 6.0]))
    assert found.tolist() == [1.0, 0.25, 1.5]
    assert np.isnan(made.add(1, np.array([0]), np.array([7]), np.zeros(1, np.int64), np.array([9.0]))).all()  # a run


def clock(rises: int, mean: float, falls: int = 0, pairs: int | None = None) -> Any:
    """A time that rises so often, by so much of its first value."""
    pairs = rises if pairs is None else pairs
    return module._Evidence(pairs=pairs, rises=rises, falls=falls, growth=mean * pairs, base=float(pairs))


@pytest.mark.parametrize(
    ("of", "counts", "may"),
    [
        (clock(3, 0.25), True, True),
        (clock(2, 0.25), False, True),  # few steps
        (clock(3, 0.24), False, False),
        (clock(10, 0.25, 1), True, True),
        (clock(9, 0.25, 1), False, False),
        (clock(0, 0.0), False, False),
        (clock(8, 0.0625), False, True),  # in all half of the first value: a slow start, or slower steps
        (clock(8, 0.0624), False, False),
        (clock(7, 0.0715), False, False),
    ],
)
def test_a_clock_rises_steeply(of: Any, counts: bool, may: bool) -> None:
    assert (of.counts_on, of.may_count_on) == (counts, may)


def fit(lines: int, fits: int, differences: int = 0, difference_fits: int = 0, **more: Any) -> Any:
    return module._Evidence(lines=lines, fits=fits, differences=differences, difference_fits=difference_fits, **more)


def test_a_role_holds_in_most_lines() -> None:
    assert [fit(4, n).fits_mostly(as_clock=False) for n in (1, 2, 3)] == [False, True, True]
    assert not fit(0, 0).fits_mostly(as_clock=False) and fit(1, 1).fits_mostly(as_clock=False)
    assert fit(4, 0, 4, 2).fits_mostly(as_clock=True) and not fit(4, 4, 4, 1).fits_mostly(as_clock=True)
    assert fit(4, 1, 2, 1).differences_fit and not fit(4, 2, 2, 1).differences_fit
    assert not fit(4, 1, 5, 2).differences_fit


@pytest.mark.parametrize(
    ("name", "of", "role"),
    [
        ("time", clock(3, 1.0), CLOCK),
        ("total", fit(4, 1, 2, 2), CLOCK),
        ("time", clock(8, 0.1), VALUE),  # it may count on
        ("time", clock(1, 0.1), STEP),
        ("total", fit(4, 2), STEP),
        ("total", fit(4, 1), VALUE),
    ],
)
def test_the_role_of_a_whole(name: str, of: Any, role: str) -> None:
    assert module._role_of_whole(name, of) == role


def key(name: str) -> tuple[int, str, str, str]:
    return 0, "form", "line", name


def role(name: str, whole: str = "time", **known: Any) -> str:
    roles = TimeRoles({})
    roles._evidence = {key(each): of for each, of in known.items()}
    roles._wholes = {key(name): {whole}}
    return roles._role(key(name))


def test_the_role_of_a_part() -> None:
    """It fits into most wholes, or has the name of a column, and does not count on alone."""
    rising, still = clock(3, 1.0), fit(0, 0)
    assert role("data", data=fit(4, 2), time=still) == PART
    assert role("data", data=fit(4, 1), time=still) == VALUE
    assert role("forward", forward=fit(4, 0), time=still) == PART
    assert role("forward", forward=rising, time=still) == VALUE  # the whole does not
    assert role("forward", forward=rising, time=clock(2, 1.0)) == PART  # both may
    assert role("forward", forward=rising, time=rising) == VALUE  # the differences of a clock have parts that do not
    assert role("data", data=fit(4, 4, 4, 1), time=rising) == VALUE  # by differences of the clock it does not fit
    assert role("data", data=fit(4, 0, 4, 2), time=rising) == PART
    assert role("data", STEP_TIME, data=fit(4, 4, 4, 0), step_time=rising) == PART  # a step time is no clock
    assert TimeRoles({})._role(key("time")) == STEP


def test_corrections_are_roles_that_rows_did_not_get() -> None:
    now = {key("time"): VALUE}
    roles = GivenRoles({key("known"): VALUE}, lambda key: now.get(key, STEP))
    assert [roles.role_for([key(name)]) for name in ("known", "time", "new")] == [VALUE, VALUE, STEP]
    now |= {key("time"): STEP, key("known"): STEP}
    assert roles.corrections == {key("time"): STEP}
    assert roles.role_for([key("time")]) == VALUE  # as its rows so far
    assert roles.are_settled([key("known")]) and not roles.are_settled([key("known"), key("new")])


def test_a_run_that_ended_is_forgotten() -> None:
    roles = TimeRoles({})
    made = roles._evidence[key("time")] = evidence([1.0])
    made.add(1, np.array([0]), np.array([1]), np.zeros(1, np.int64), np.array([1.0]))
    roles.end(0)
    assert [*made.last] == [1]


def test_a_total_is_the_sum_of_several_times() -> None:
    """Of half of it, they may be the parts of one of two micro-batches."""
    whole = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    parts = {"a": np.array([0.5, 0.25, 0.25, 0.6, 0.0]), "b": np.array([0.52, 0.4, 0.25, 0.43, np.nan])}
    assert module._is_sum(parts, whole).tolist() == [True, True, False, False, False]
    assert not module._is_sum({"a": whole}, whole).any()  # one alone is no sum


def test_a_line_says_what_its_times_are() -> None:
    line = Line("l", Template("step {step:d} {t:f} {d:f} {loss:f} {forward:f}"), (), "steps",
                unit={"t": UNITS["ms"], "d": UNITS["ms"]}, phases=frozenset({"x"}), clock=())  # fmt: skip
    made, names = line_with(line, (("t", STEP), ("d", PART), ("forward", VALUE)))
    assert names == {"t": STEP_TIME, "forward": "forward_since_start"}
    assert made.phases == {"x", "d"} and made.clock == () and made.unit == {STEP_TIME: UNITS["ms"], "d": UNITS["ms"]}
    assert STEP_TIME in made.template.text and "forward_since_start" in made.template.text
    made, names = line_with(line, (("t", CLOCK), ("forward", PART), ("d", VALUE)))
    assert not names and made.clock == ("t",) and made.phases == {"x"} and made.template == line.template


@pytest.mark.parametrize(
    ("seconds", "parts"),
    [
        ({"step_time": 3.0, "data": 0.1, "opt": 0.3}, {"data", "opt"}),
        ({"step_time": 3.0, "forward": 0.6, "backward": 2.0, "opt": 0.4}, {"forward", "backward", "opt"}),
        ({"step_time": 3.0, "forward": 0.6, "backward": 2.0, "opt": 0.6}, set()),  # 3.2 s are no parts of 3 s
        ({"step_time": 1.0, "a": 0.51, "b": 0.51}, {"a", "b"}),  # each is rounded
        ({"step_time": 1.0, "a": 0.52, "b": 0.51}, set()),
        ({"step_time": 1.0, "a": 0.52, "b": 3.0}, {"a"}),  # the other is longer than the step by itself
        ({"step_time": 3.0, "backward": 2.0, "backward_compute": 1.9, "backward_allreduce": 0.1, "opt": 1.0},
         {"backward", "backward_compute", "backward_allreduce", "opt"}),
        ({"step_time": 3.0, "backward": 2.0, "backward_compute": 2.5}, {"backward"}),
        ({"step_time": 3.0, "forward": 0.9, "backward": 1.9, "comm": 1.5, "opt": 0.2},
         {"forward", "backward", "opt"}),  # communication beside the backward
        ({"step_time": 3.0, "comm": 2.0, "comm_allreduce": 1.9}, set()),  # perhaps one in the other: not known
    ],
)  # fmt: skip
def test_parts_take_no_longer_than_their_whole(seconds: dict[str, float], parts: set[str]) -> None:
    columns = {name: np.array([value]) for name, value in seconds.items()}
    whole = columns.pop("step_time")
    assert {name for name, fits in fitting(columns, whole).items() if fits.all()} == parts


# --- logs -------------------------------------------------------------------------------------------------------------


def step_times(line: Callable[[int], str], steps: Sequence[int] = range(1, 13)) -> list[float | None]:
    rows = read("".join(f"step {k} | loss 2.5 | {line(k)}\n" for k in steps).encode()).rows("steps")
    return [row["step_time_s"] and round(row["step_time_s"], 6) for row in rows]


PARTS = "data 0.1s | fwd 0.6s | bwd 1.9s"


@pytest.mark.parametrize(
    ("line", "times"),
    [
        (lambda k: f"total {3 * k}.0s | {PARTS}", [None, *[3.0] * 11]),  # since the start: the time of step 1 at step 1
        (lambda k: f"total {30 + 3 * k}.0s | {PARTS}", [None, *[3.0] * 11]),
        (lambda k: f"total {30 if k == 1 else 3}.0s | {PARTS}", [30.0, *[3.0] * 11]),  # the first step compiles
        (lambda k: f"total 9{k:02d}.5s | {PARTS}", [None, *[None] * 11]),  # the parts fit neither
        (lambda k: f"total {2.7 + k / 100:.2f}s | {PARTS}", [round(2.7 + k / 100, 2) for k in range(1, 13)]),
        (lambda k: f"Time: {250 * k}.0 ms", [None, *[0.25] * 11]),
        (lambda k: f"Time: {250 + k}.0 ms", [0.25 + k / 1000 for k in range(1, 13)]),
        (lambda k: f"Time: {250 + k % 3}.0 ms", [0.25 + k % 3 / 1000 for k in range(1, 13)]),
        (lambda k: f"Time: {250 + 20 * k}.0 ms", [None] * 12),  # slower and slower, or a slow start: not known
        (lambda k: f"Time: {250 * (k % 11 + 1)}.0 ms", [None, *[0.25] * 9, None, 0.25]),  # it begins again
    ],
)
def test_a_time_since_the_start_is_no_time_of_a_step(line: Callable[[int], str], times: list[float | None]) -> None:
    assert step_times(line) == times


def test_two_lines_do_not_show_whether_a_time_is_of_the_step() -> None:
    assert step_times(lambda k: f"Time: {250 * k}.0 ms", [1, 2]) == [None, None]
    assert step_times(lambda k: f"total {3 * k}.0s | {PARTS}", [1, 2]) == [None, 3.0]


def keys_of(line: Callable[[int], str]) -> tuple[set[str], set[str], set[float | None]]:
    log = read("".join(f"step {k} | step_time 1.0s | {line(k)}\n" for k in range(1, 13)).encode())
    tables = [{row[key] for row in log.rows(table)} for table, key in (("phases", "phase"), ("values", "key"))]
    return tables[0], tables[1], {row["forward_s"] for row in log.rows("steps")}


def test_a_part_that_counts_on_is_no_phase() -> None:
    assert keys_of(lambda k: f"data_time {0.01 * k:.2f}s | opt 0.2s") == ({"opt"}, {"data_time"}, {None})
    assert keys_of(lambda k: f"fwd {0.05 * k:.2f}s | opt 0.2s") == ({"opt"}, {"forward_since_start"}, {None})
    growing = read("".join(f"step {k} | step_time {1 + k}s | data_time {k}s\n" for k in range(1, 13)).encode())
    assert {row["phase"] for row in growing.rows("phases")} == {"data_time"}  # the step grows with it


def test_the_parts_of_most_lines_are_phases() -> None:
    compiles = [10.0, *[1.0] * 11]
    phases = keys_of(lambda k: f"io 0.1s | wait {4.5 if k > 1 else 0.5}s")[0]
    assert phases == {"io"}
    log = read("".join(f"step {k} step_time {time}s io 0.3s opt 2.0s\n" for k, time in enumerate(compiles)).encode())
    assert {row["phase"] for row in log.rows("phases")} == {"io"}


def test_later_lines_may_change_what_a_time_is() -> None:
    """The rows of the first part of a log are made before its last line is read: then the log is read again."""
    times = [250 + k % 3 if k < 200 else 250 * k for k in range(3000)]
    lines = "".join(f"step {k} | loss 2.5 | Time: {time}.0 ms\n" for k, time in enumerate(times))
    whole, parts = (read(lines.encode(), chunk=size) for size in (1 << 20, 1 << 12))
    assert whole.rows("steps") == parts.rows("steps")
    assert {row["step_time_s"] for row in whole.rows("steps")[201:]} == {0.25}


@pytest.mark.parametrize(("micro_batches", "source"), [(1, None), (2, "line"), (4, "line")])
def test_the_time_of_an_update_is_that_of_a_step_only_without_accumulation(
    micro_batches: int, source: str | None
) -> None:
    """Steps of ESPnet count batches. Its forward and backward times are of a batch."""
    line = (
        "[host] 2020-04-05 16:34:{:02d},355 (trainer:453) INFO: 2epoch:train:{}-{}batch: iter_time=0.006, "
        "forward_time=0.230, loss=50.873, backward_time=0.230, optim_step_time=0.020, lr_0=1.000, train_time={:.3f}\n"
    )
    lines = (line.format(5 * k, 10 * k - 9, 10 * k, 0.49 * micro_batches) for k in range(1, 9))
    steps = read("".join(lines).encode()).rows("steps")
    assert {(row["step_time_s"], row["step_time_by"]) for row in steps[1:]} == {
        (0.49 if source is None else 0.5, source)
    }
