"""Histories: since when the figures of like runs are at another level."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.drawings import ys
from support.json_logs import json_log, steady_times
from support.metrics_logs import by_hand

import perflog
from perflog.metrics import Options, Tables, history
from perflog.metrics.many_runs import history as module
from perflog.metrics.many_runs.history import _MOST_SETTINGS, _figures, history_rows, settings_summary
from perflog.metrics.many_runs.version_levels import ChangedSetting
from perflog.metrics.run_moments import moments
from perflog.plots import history as history_plot

FIRST = datetime(2026, 1, 30)  # noqa: DTZ001 (logs name no time zone)
SLOWER = 7  # the first night of the slower level


def nightly(folder: Path, nights: int = 12, slower: float = 1.1, **settings: Sequence[object]) -> perflog.Log:
    """A log a night, whose step times grow by a factor from night `SLOWER` on; settings by night."""
    for night in range(nights):
        level = 0.2 * (slower if night >= SLOWER else 1)
        of_night = {name: values[night] for name, values in settings.items()}
        date = FIRST + timedelta(days=night)
        json_log(folder / f"{date:%Y-%m-%d}_nightly.json", steady_times(night, level), of_night)
    return perflog.read(folder)


def test_the_night_from_which_on_steps_are_slower(tmp_path: Path) -> None:
    log = nightly(tmp_path)
    rows = history(log)
    rows = rows[rows["figure"] == "step_time_s"]
    assert list(rows["at"]) == [f"{FIRST + timedelta(days=k):%Y-%m-%d}" for k in range(12)]
    assert list(rows["level"]) == [1] * SLOWER + [2] * (12 - SLOWER)
    (change,) = rows[rows["change"].notna()].to_dict("records")
    assert (change["at"], change["change"]) == ("2026-02-06", pytest.approx(0.1, abs=0.01))
    assert set(rows["level_versions"]) == {SLOWER, 12 - SLOWER}
    seen = perflog.overview(log)
    (since,) = (text for text in seen.reasons if text.startswith("Since"))
    assert since.startswith("Since 2026-02-06 (2026-02-06_nightly.json): step 199.9 ms -> 219.6 ms, +9.8 %, p 0.002")
    assert any(command.startswith("perflog track ") for command in seen.next)


def test_equal_nights_are_one_level(tmp_path: Path) -> None:
    log = nightly(tmp_path, slower=1)
    rows = history(log)
    assert set(rows["level"]) == {1}
    assert rows["change"].isna().all() and rows["stands_out"].isna().all()
    assert not any(text.startswith("Since") for text in perflog.overview(log).reasons)


def test_a_version_that_changes_once_is_told_beside_the_change(tmp_path: Path) -> None:
    versions = ["2.9"] * SLOWER + ["2.10"] * (12 - SLOWER)
    log = nightly(tmp_path, torch_version=versions, seed=list(range(12)))
    (change,) = history(log).query("figure == 'step_time_s' and change.notna()").to_dict("records")
    assert change["with_it"] == "torch_version 2.9 -> 2.10"
    assert any("with it torch_version 2.9 -> 2.10" in text for text in perflog.overview(log).reasons)


def test_a_setting_that_goes_back_and_forth_makes_a_history_for_each_value(tmp_path: Path) -> None:
    """Batches of 8 and 16 on alternate nights: the steps of one are no change of the other."""
    log = nightly(tmp_path, nights=24, slower=1, batch=[8, 16] * 12)
    names = history(log)["history"].unique()
    assert sorted(name.rpartition(", ")[2] for name in names) == ["batch 16", "batch 8"]


def test_too_few_nights_are_no_history(tmp_path: Path) -> None:
    assert not len(history(nightly(tmp_path, nights=7)))


def test_logs_without_a_date_are_no_history(tmp_path: Path) -> None:
    for k in range(12):
        json_log(tmp_path / f"run_{k}.json", steady_times(k))
    assert not len(history(perflog.read(tmp_path)))


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("2026-01-16_nightly.json", "2026-01-16"),
        ("run_20260116-093000.json", "2026-01-16 09:30:00"),
        ("2026-01-16T09:30.json", "2026-01-16 09:30:00"),
        ("20260116/rank0.json", "2026-01-16"),
        ("2026-01-01/2026-01-16_nightly.json", "2026-01-16"),
        ("20261399.json", None),
        ("a20260116b4.json", None),
        ("run_120260116.json", None),
    ],
)
def test_the_date_in_the_name_of_a_log(tmp_path: Path, name: str, at: str | None) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    log = perflog.read(json_log(tmp_path / name, steady_times(1)))
    assert [str(moment) for moment in moments(Tables(log)).values()] == ([at] if at else [])


@pytest.mark.parametrize(
    ("setting", "at"),
    [
        ({"started": "2026-02-03T04:05:06"}, "2026-02-03 04:05:06"),
        ({"start_time": 1770091506}, "2026-02-03 04:05:06"),
        ({"start_time": 1770091506000}, "2026-02-03 04:05:06"),
        ({"start_time": 12.5}, "2026-01-16"),
        ({"date": "yesterday"}, "2026-01-16"),
        ({"start_date_of_data": "2020-01-01"}, "2026-01-16"),
    ],
)
def test_a_setting_counts_before_the_name_of_the_log(tmp_path: Path, setting: dict[str, object], at: str) -> None:
    log = perflog.read(json_log(tmp_path / "2026-01-16.json", steady_times(1), setting))
    assert [str(moment) for moment in moments(Tables(log)).values()] == [at]


def test_the_plot_has_a_line_for_each_level(tmp_path: Path) -> None:
    log = nightly(tmp_path)
    axes = history_plot(log).axes[0]
    by_kind = {kind: [line for line in axes.lines if line.get_gid() == kind] for kind in ("version", "level")}
    (runs,) = by_kind["version"]
    rows = history(log).query("figure == 'step_time_s'")
    assert list(ys(runs)) == pytest.approx(list(rows["value"] * 1000))
    means = list(dict.fromkeys(rows["level_value"]))
    assert [ys(line)[0] for line in by_kind["level"]] == pytest.approx([1000 * mean for mean in means])


def made_course(is_last_off: bool) -> Any:
    """Five versions on two levels; the second one is an outlier."""
    changed = SimpleNamespace(place=3, change=0.5, low=0.4, high=0.6, p=0.01, settings=(), cause="program")
    levels = [range(3), range(3, 5)]
    versions = [SimpleNamespace(name=f"v{k}", at=f"t{k}", runs=[f"r{k}"]) for k in range(5)]
    of = SimpleNamespace(levels=levels, members=lambda level: [k for k in level if k != 1], outliers={1})
    return SimpleNamespace(
        changes=[changed], course=of, versions=versions,
        is_last_off=is_last_off, test="t", figure=SimpleNamespace(name="step", unit="s"), runs=[1, 2, 1, 1, 3],
        values=[1.0, 9.0, 1.1, 1.5, 1.6], expected=lambda place: 1.0 if place < 3 else 1.5,
    )  # fmt: skip


@pytest.mark.parametrize(("is_last_off", "last"), [(False, None), (True, "not confirmed")])
def test_rows_of_versions_on_their_levels(is_last_off: bool, last: str | None) -> None:
    rows = list(history_rows(made_course(is_last_off), {f"r{k}": f"l{k}" for k in range(5)}))
    assert [row["stands_out"] for row in rows] == [None, "outlier", None, None, last]
    of_level = [(row["level"], row["level_versions"], row["level_value"]) for row in rows]
    assert of_level == [(1, 2, 1.0)] * 3 + [(2, 2, 1.5)] * 2
    assert [(row["run"], row["label"], row["version"], row["at"]) for row in rows][4] == ("r4", "l4", "v4", "t4")
    assert [row["runs"] for row in rows] == [1, 2, 1, 1, 3] and [row["value"] for row in rows][1] == 9.0
    assert ["change" in row for row in rows] == [False, False, False, True, False]
    assert [rows[3][name] for name in ("change", "low", "high", "p", "cause")] == [0.5, 0.4, 0.6, 0.01, "program"]


@pytest.mark.parametrize("count", [0, 1, _MOST_SETTINGS, _MOST_SETTINGS + 2])
def test_the_settings_that_changed_with_a_level(count: int) -> None:
    names = [f"s{k}" for k in range(count)]
    found = settings_summary([ChangedSetting(name, "a", "b") for name in names])
    texts = [f"{name} a -> b" for name in names[:_MOST_SETTINGS]]
    more = [f"and {count - _MOST_SETTINGS} more"] if count > _MOST_SETTINGS else []
    assert found == (", ".join([*texts, *more]) or None)


@pytest.mark.parametrize(("runs", "figure"), [("ab", "tokens_per_s"), ("a", "step_time_s"), ("abc", "step_time_s")])
def test_the_speed_is_the_first_one_that_all_runs_have(runs: str, figure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is of all runs, it is the first one."""
    speeds = {"step_time_s": {"a": 1.0}, "tokens_per_s": {"a": 5.0, "b": 6.0}, "samples_per_s": {"a": 7.0, "b": 8.0}}
    monkeypatch.setattr(module, "steady_medians", lambda _tables, name, *_: speeds[name])
    first, clock = _figures(Tables(by_hand("steps", [])), runs, Options())
    assert (first.name, first.better, clock.name, clock.unit) == (
        figure, "lower" if figure == "step_time_s" else "higher", "elapsed_s", "s",
    )  # fmt: skip
    assert first.values == {run: value for run, value in speeds[figure].items() if run in runs}
