"""What the times beside a step are: what the lines of a log show of them, and the roles that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from perflog.formats.families.step_parts import STEP_TIME
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.steps import time_roles as module
from perflog.parsing.assemble.steps.time_roles import CLOCK, VALUE, TimeRoles, line_with
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
        made.add(0, 0, at, of, np.array(values, np.float64))
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
    found = made.add(0, 0, steps, epochs, np.array([1.0, 1.5, 4.0, 3.0]))
    assert np.array_equal(found, [np.nan, np.nan, 3.0, np.nan], equal_nan=True)
    found = made.add(0, 0, np.array([4]), np.zeros(1, np.int64), np.array([3.5]))
    assert found.tolist() == [0.5]
    assert np.isnan(made.add(0, 1, np.array([5]), np.zeros(1, np.int64), np.array([9.0]))).all()  # another rank


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
    roles = TimeRoles({key("known"): VALUE})
    roles._used = {key("time"): VALUE, key("other"): STEP, key("known"): STEP}
    assert roles.corrections == {key("time"): STEP}
    assert roles._use(key("known")) == VALUE and roles._use(key("time")) == VALUE and roles._use(key("new")) == STEP


def test_a_run_that_ended_is_forgotten() -> None:
    roles = TimeRoles({})
    made = roles._evidence[key("time")] = evidence([1.0])
    made.add(1, 0, np.array([1]), np.zeros(1, np.int64), np.array([1.0]))
    roles.end(0)
    assert [*made.last] == [(1, 0)]


def test_a_total_is_the_sum_of_several_times() -> None:
    whole = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    parts = {"a": np.array([0.5, 0.25, 0.24, 0.6, 0.0]), "b": np.array([0.52, 0.25, 0.25, 0.43, np.nan])}
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
