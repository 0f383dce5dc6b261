"""What the states of progress bars print: counts, times and figures, by rank label and in log order."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perflog.formats.model import BarFields, Line
from perflog.formats.template import Template
from perflog.parsing.match.ordered import bar_table as module
from perflog.parsing.match.ordered.bar_table import State, StateTable
from perflog.parsing.match.records import Records
from perflog.units import UNITS

FIELDS = BarFields("n", "of", "time", "rate", counts_steps=True)
TEXT = "{n:d}/{of:d} [{time:k}, {rate:f}, loss={loss:f}]"


def bar(text: str = TEXT, unit: str = "s", fields: BarFields | None = FIELDS, **more: Any) -> Line:
    """A line with the state of a bar. `unit`: of its rate, "" for none."""
    units = {"rate": UNITS[unit]} if unit else {}
    usual: dict[str, Any] = {"table": "steps", "unit": units, "bar": fields} | more
    return Line("bar", Template(text), **usual)


def records(labels: list[int] | None = None, **columns: Any) -> Records:
    arrays = {name: np.array(values) if isinstance(values, list) else values for name, values in columns.items()}
    count = len(next(iter(arrays.values())))
    return Records(np.arange(count) * 10, arrays, None if labels is None else np.array(labels))


def test_numbers_that_are_not_known() -> None:
    found = records(a=[1.5, math.nan, math.inf], b=pa.array(["x", "y", "z"]))
    assert [module.numbers_of(found, name) for name in "abc"] == [[1.5, -1, -1], [-1] * 3, [-1] * 3]


@pytest.mark.parametrize(
    ("unit", "times"), [("s", [0.5, 0.0, 4.0]), ("ms", [0.0005, 0.0, 0.004]), ("1/s", [2.0, math.inf, 0.25])]
)
def test_the_time_of_a_step_by_the_rate(unit: str, times: list[float]) -> None:
    """Seconds for each step or steps a second, whatever is printed."""
    line, found = bar(unit=unit), records(rate=[0.5, 0.0, 4.0], of=[39, 40, 5])
    assert module.step_times(line, found) == pytest.approx(times)
    whole = [time if time * total < 20 else math.nan for time, total in zip(times, [39, 40, 5], strict=True)]
    assert module.short_bar_times(line, found).tolist() == pytest.approx(whole, nan_ok=True)


def test_without_a_rate_or_its_unit_a_step_has_no_time() -> None:
    for line in (bar(fields=None), bar(unit="")):
        assert all(map(math.isnan, module.step_times(line, records(rate=[0.5]))))
    assert all(map(math.isnan, module.step_times(bar(), records(x=[0.5]))))
    assert np.isnan(module.short_bar_times(bar(fields=None), records(rate=[0.5], of=[5]))).all()


@pytest.mark.parametrize(
    ("time", "total", "expected"),
    [
        (0.0, 5, 0.0),
        (0.5, 39, 0.5),
        (0.5, 40, math.nan),
        (0.5, 0, math.nan),
        (0.5, -1, math.nan),
        (math.nan, 5, math.nan),
    ],
)
def test_a_short_bar_takes_less_than_twenty_seconds(time: float, total: float, expected: float) -> None:
    assert module.time_of_short_bar(time, total) == pytest.approx(expected, nan_ok=True)


def test_the_figures_that_a_state_shows() -> None:
    """Those after its count, total, time and rate; the kind distinguishes lines."""
    found = records(n=[1, 2], of=[9, 9], time=[1.0, 2.0], rate=[0.5, 0.5], loss=[2.5, 2.25], x=pa.array(["a", None]))
    assert module.shown_by(bar(), 7, found) == [(7, 2.5), (7, 2.25)]
    assert module.shown_by(bar(TEXT + " {x:w}"), 7, found) == [(7, 2.5, "a"), (7, 2.25, None)]
    assert module.shown_by(bar("loss={loss:f} {n:d}/{of:d}"), 7, found) == [(), ()]
    assert module.shown_by(bar(table="values"), 7, found) == [(), ()]
    assert module.shown_by(bar("loss={loss:f} {x:w}", fields=None), 7, found) == [(), ()]


@pytest.mark.parametrize(
    ("text", "more", "column", "epoch"),
    [
        ("epoch {epoch:d} {n:d}", {}, np.array([3]), 3.0), ("epoch {epoch:f} {n:d}", {}, np.array([0.25]), 0.25),
        ("epoch {epoch:S} {n:d}", {}, pa.array(["2.5"]), 2.5), ("epoch {epoch:S} {n:d}", {}, pa.array(["last"]), None),
        ("epoch {epoch:S} {n:d}", {}, pa.array([None], pa.string()), None), ("{n:d}", {}, np.array([3]), None),
        ("epoch {e:d} {n:d}", {"paths": {"e": "epoch"}}, None, 4.0),
    ],
)  # fmt: skip
def test_the_epoch_that_a_line_prints(text: str, more: dict[str, Any], column: Any, epoch: float | None) -> None:
    columns = {"n": [1], "e": [4]} | ({} if column is None else {"epoch": column})
    assert module.printed_epoch(bar(text, **more), records(**columns), 0) == epoch


@pytest.mark.parametrize(
    ("text", "fields", "within", "has_step", "has_epoch"),
    [
        ("{step:d}: {n:d}/{of:d}", FIELDS, None, True, False), ("{step:f}: {n:d}/{of:d}", FIELDS, None, False, False),
        ("{n:d}/{of:d}", FIELDS, None, False, False),
        ("{step:d}/{of:d}", BarFields("step", "of", "", "", True), None, False, False),  # it is the count
        ("{step:d}/{of:d}", None, None, False, False), ("{epoch:d}: {n:d}", FIELDS, "epoch", False, True),
        ("{epoch:f}: {n:d}", FIELDS, "epoch", False, False), ("{epoch:d}: {n:d}", FIELDS, None, False, False),
        ("{n:d}", FIELDS, "epoch", False, False),
    ],
)  # fmt: skip
def test_what_is_printed_beside_a_count(
    text: str, fields: BarFields | None, within: str | None, has_step: bool, has_epoch: bool
) -> None:
    line = bar(text, fields=fields, within=within)
    assert (module.prints_step(line), module.counts_within_epoch(line)) == (has_step, has_epoch)


def test_states_are_by_label_in_log_order() -> None:
    """Each keeps its place in its batch, kind after kind."""
    one = records(
        [0, 1, 0], n=[1, 2, 3], of=[9, 9, 9], time=[1.0, math.nan, 3.0], rate=[0.5, 1.0, 2.0], loss=[5.0, 4.0, 3.0]
    )
    two = Records(np.array([5, 15]), {"step": np.array([7, 8]), "epoch": np.array([1, 2]), "n": np.array([4, 5])})
    plain = Line("x", Template("{n:d}"))
    lines: Any = [
        (None, bar()),
        (None, plain),
        (None, bar("{epoch:d} {step:d}: {n:d}", within="epoch", table="values")),
    ]
    batch: Any = SimpleNamespace(records={0: one, 1: records(n=[1]), 2: two})
    table = StateTable(lines, batch, [0, 2])
    assert table.kinds.tolist() == [0, 0, 0, 2, 2] and list(table.lines) == [0, 2]
    assert {label: positions.tolist() for label, positions in table.positions.items()} == {
        0: [0, 20],
        1: [10],
        -1: [5, 15],
    }
    assert table.states[0] == [
        State(0, 1, 9, 1.0, 0.5, True, 0, (0, 5.0)), State(20, 3, 9, 3.0, 2.0, True, 2, (0, 3.0))
    ]  # fmt: skip
    (other,) = table.states[1]
    assert (other.elapsed, other.index, other.shown, other.may_lag) == (-1, 1, (0, 4.0), False)
    first, second = table.states[-1]
    assert [(state.count, state.total, state.step, state.epoch, state.index) for state in (first, second)] == [
        (4, -1, 7, 1, 3), (5, -1, 8, 2, 4)
    ]  # fmt: skip
    assert first.may_lag and table.states[0][0].may_lag  # without a rate, and below a second
    back: Any = SimpleNamespace(records={0: Records(np.array([9, 3]), one.take(slice(0, 2)).columns)})
    assert [state.position for state in StateTable(lines, back, [0]).states[-1]] == [3, 9]
