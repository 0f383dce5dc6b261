"""Levels of a metric over versions: where it changes, and what else changed there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perflog.metrics.directions import Better
from perflog.metrics.many_runs.version_levels import (
    FigureCourse,
    FigureOfRuns,
    UntrackedFigure,
    VersionSettings,
    _at,
    _changed,
    _effect,
    figure_courses,
    version_settings,
)
from perflog.metrics.many_runs.versions import Version, Versions
from perflog.statistics.levels import Course
from perflog.statistics.shared_scatter import SharedScatter

JITTER = (1.0, 1.001, 0.999, 1.0005, 0.9995)
OLD, NEW = [10 * JITTER[k % 5] for k in range(8)], [12 * JITTER[k % 5] for k in range(8)]


def versions(count: int, runs: int = 1) -> Versions:
    """Versions `v0`, `v1`, ... of runs `0.0`, `0.1`, ..."""
    return Versions("test", tuple(Version(f"v{k}", "", tuple(f"{k}.{r}" for r in range(runs))) for k in range(count)))


def course(
    values: Sequence[float], better: Better | None = "lower", settings: VersionSettings | None = None
) -> FigureCourse | UntrackedFigure:
    """A metric with a value of one run for each version."""
    figure = FigureOfRuns("step time", "s", better, {f"{k}.0": value for k, value in enumerate(values)})
    (found,) = figure_courses([(versions(len(values)), figure)], {"test": settings or {}})
    return found


def changed(found: FigureCourse | UntrackedFigure) -> FigureCourse:
    assert isinstance(found, FigureCourse)
    return found


def test_a_change_of_level() -> None:
    found = changed(course(OLD + NEW))
    (change,) = found.changes
    assert (change.place, change.before.name, change.after.name, change.versions) == (8, "v7", "v8", 8)
    assert (change.old, change.new) == pytest.approx((10, 12), rel=1e-3)
    assert change.change == pytest.approx(0.2, rel=1e-2)
    assert change.low < change.change < change.high and change.high - change.low < 0.01 and change.p < 0.01
    assert (change.cause, change.settings, change.same_machine) == (None, (), ())
    assert [found.level_value(level) for level in found.course.levels] == pytest.approx([10, 12], rel=1e-3)
    assert (found.expected(3), found.expected(9)) == pytest.approx((change.old, change.new))
    assert found.drift == 0 and not found.is_last_off and abs(found.last_change) < 0.01


def test_values_that_scatter_have_one_level() -> None:
    found = changed(course(OLD * 2))
    assert found.changes == () and len(found.course.levels) == 1
    assert found.values == tuple(OLD * 2) and found.runs == (1,) * 16 and found.missing == ()


def test_the_last_version_may_be_off() -> None:
    found = changed(course([*OLD, *OLD, 12]))
    assert found.is_last_off and found.changes == ()
    assert found.last_change == pytest.approx(0.2, rel=1e-2)


@pytest.mark.parametrize(
    ("better", "change", "expected"),
    [
        ("lower", 0.1, "regression"),
        ("lower", -0.1, "improvement"),
        ("higher", 0.1, "improvement"),
        ("higher", -0.1, "regression"),
        (None, 0.1, ""),
        ("lower", 0.0, ""),
        ("lower", math.nan, ""),
    ],
)
def test_what_a_change_means(better: Better | None, change: float, expected: str) -> None:
    assert changed(course(OLD, better)).verdict(change) == expected


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0] * 7, "7 versions with it, 8 are needed"),
        ([1.0] * 7 + [math.nan], "7 versions with it, 8 are needed"),
        ([1.0] * 7 + [0.0], "a value is not above 0: changes are shares of values"),
        ([1.0] * 7 + [-1.0], "a value is not above 0: changes are shares of values"),
    ],
)
def test_metrics_without_levels(values: list[float], reason: str) -> None:
    assert course(values) == UntrackedFigure("test", "step time", reason)


def test_a_version_has_the_geometric_mean_of_its_runs() -> None:
    values = {f"{k}.{r}": value for k in range(9) for r, value in enumerate((4.0, 9.0))}
    values |= {"3.0": math.nan, "3.1": math.inf, "4.1": math.nan}
    figure = FigureOfRuns("step time", "s", None, values)
    (found,) = figure_courses([(versions(9, 2), figure)], {"test": {}})
    assert changed(found).values == pytest.approx((6, 6, 6, 4, 6, 6, 6, 6))
    assert changed(found).runs == (2, 2, 2, 1, 2, 2, 2, 2)
    assert [version.name for version in changed(found).missing] == ["v3"]


# --- what else changed ------------------------------------------------------------------------------------------------


def cause_of(**settings: Sequence[str | None]) -> tuple[str | None, list[str], tuple[str, ...]]:
    """The cause of a change after eight of sixteen versions, by the values of settings in them."""
    known: Mapping[str, Mapping[str, frozenset[str | None]]] = {
        name: {f"v{k}": frozenset([value]) for k, value in enumerate(values)} for name, values in settings.items()
    }
    (change,) = changed(course(OLD + NEW, settings=known)).changes
    return change.cause, [str(each) for each in change.settings], change.same_machine


def test_the_error_of_a_change_is_that_of_a_cut() -> None:
    """Squares 2 and 8 about the means 2 and 7, with two degrees of freedom; a shared variance adds its own."""
    before, after = np.array([1.0, 3.0]), np.array([5.0, 9.0])
    alone = _effect(Course([]), before, after, 0.0)
    assert (alone.shift, alone.error, alone.freedom) == pytest.approx((5, math.sqrt(10 / 2), 2))
    rounded = _effect(Course([], widening=2.0), before, after, 3.0)
    assert (rounded.error, rounded.freedom) == pytest.approx((3 * 2, 2))
    shared = _effect(Course([], shared=SharedScatter(1.5, 4.0)), before, after, 0.0)
    assert (shared.error, shared.freedom) == pytest.approx((math.sqrt((10 + 4 * 1.5) / 6), 6))
    assert math.isnan(_effect(Course([]), before[:1], after[:1], 0.0).error)
    one_degree = _effect(Course([]), before[:1], after, 0.0)
    assert (one_degree.error, one_degree.freedom) == pytest.approx((math.sqrt(8 * (1 + 1 / 2)), 1))


A, B = ["a"], ["b"]


def test_the_cause_of_a_change() -> None:
    assert cause_of(batch=A * 8 + B * 8) == ("settings", ["batch a -> b"], ())
    assert cause_of(driver=A * 8 + B * 8) == ("machine", ["driver a -> b"], ())
    assert cause_of(driver=A * 8 + B * 8, batch=A * 8 + B * 8)[0] == "machine and settings"
    assert cause_of(driver=A * 16) == ("program", [], ("driver",))
    assert cause_of(driver=A * 16, batch=A * 8 + B * 8) == ("settings", ["batch a -> b"], ("driver",))
    assert cause_of(batch=A * 16) == (None, [], ())


def test_a_setting_that_changes_one_version_earlier_or_later_may_be_the_cause() -> None:
    assert cause_of(batch=A * 7 + B * 9)[:2] == ("settings", ["batch a -> b"])
    assert cause_of(batch=A * 9 + B * 7)[:2] == ("settings", ["batch a -> b"])
    assert cause_of(batch=A * 6 + B * 10)[0] is None
    assert cause_of(batch=A * 10 + B * 6)[0] is None


def test_a_setting_of_a_single_version_is_its_own() -> None:
    names = versions(3).versions
    same, other = ({version.name: frozenset([value]) for version, value in zip(names, each, strict=True)}
                   for each in ("aaa", "aab"))  # fmt: skip
    assert list(_changed(names[:2], names[2:], {"batch": same})) == []
    assert list(_changed(names[:1], names[1:2], {"batch": same})) == []
    assert [str(each) for each in _changed(names[:2], names[2:], {"batch": other})] == ["batch a -> b"]


def test_a_setting_that_often_changes_is_no_cause() -> None:
    assert cause_of(batch=[str(k) for k in range(16)])[0] is None


@pytest.mark.parametrize(("device", "same"), [("H100", ("device",)), ("cuda", ()), (None, ())])
def test_a_kind_of_device_shows_no_machine(device: str | None, same: tuple[str, ...]) -> None:
    assert cause_of(device=[device] * 16)[2] == same


def test_settings_that_may_be_informative() -> None:
    settings = {
        "0.0": {"driver": "1", "batch": "8", "model": "m", "seed": "1"},
        "1.0": {"driver": "1", "batch": "16", "model": "m", "seed": "2"},
    }
    assert version_settings(versions(2), settings) == {
        "driver": {"v0": {"1"}, "v1": {"1"}},
        "batch": {"v0": {"8"}, "v1": {"16"}},
    }


def test_the_drift_over_all_versions() -> None:
    """1 % of a logarithm from each of five versions to the next: exp(0.04) - 1."""
    course: Any = SimpleNamespace(course=SimpleNamespace(drift=0.01), values=(1.0,) * 5)
    assert FigureCourse.drift.__get__(course) == pytest.approx(math.exp(0.04) - 1)


def test_the_mean_of_a_level_at_a_version() -> None:
    """Values that grow by a tenth with each version: the geometric mean of versions 1 to 3, 2.42, carried to others."""
    found: Any = SimpleNamespace(drift=math.log(1.1), members=lambda _: [1, 2, 3])
    values = [2 * 1.1**k for k in range(6)]
    level: Any = None
    assert [_at(found, level, k, values) for k in (0, 2, 5)] == pytest.approx([2, 2.42, 2 * 1.1**5])
    found.drift = 0.0
    assert _at(found, level, 5, values) == pytest.approx(2.42)
