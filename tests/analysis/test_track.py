"""Tracking: figures over versions, told night by night."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.commands import run, told
from support.json_logs import json_log, steady_times

import perflog
from perflog.analysis import track as module
from perflog.analysis.compare import baselines
from perflog.analysis.track import Track, track
from perflog.errors import UsageError
from perflog.metrics import Tables
from perflog.metrics.compared import Measure
from perflog.metrics.many_runs.version_levels import LAST_P, ChangedSetting
from perflog.metrics.many_runs.versions import versions_of_tests
from perflog.metrics.series.series_ends import AT_STEP
from perflog.metrics.settings_by_run import settings_by_run
from perflog.tables.store import Store

FIRST = datetime(2026, 3, 1, 2)  # noqa: DTZ001 (logs name no time zone)
FLAKY, NEW_DRIVER, SLOWER, NIGHTS = 7, 13, 22, 30
SLOWER_BY, DRIVER_BY, FLAKY_BY = 1.04, 0.97, 1.25
CALM = 0.002


def commit(night: int) -> str:
    """The commit of a night: no order in it."""
    return f"{(night * 7919 + 104729) * 0x9E3779B1 % 16**10:010x}" + "0123456789abcdef" * 2


def scatter(nights: int, seed: int = 5) -> Sequence[float]:
    """How much slower each night is, by chance."""
    return list(np.exp(np.random.default_rng(seed).normal(0, CALM, nights)))


def nightly(folder: Path, levels: Sequence[float], settings: Mapping[str, Sequence[object]], repeats: int = 1) -> str:
    """A log for each night and repeat; settings by night."""
    folder.mkdir(exist_ok=True)
    for night, level in enumerate(levels):
        of_night = {name: values[night] for name, values in settings.items()}
        for repeat in range(repeats):
            name = f"night_{night:02}_{repeat}.json"
            json_log(folder / name, steady_times(100 * night + repeat, 0.2 * level), of_night)
    return str(folder)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> perflog.Log:
    """30 nights of one job: a flaky one, a new driver, and from night 22 on a program that is 4 % slower."""
    folder = tmp_path_factory.mktemp("story")
    store = str(folder / "store")
    for night, by_chance in enumerate(scatter(NIGHTS)):
        level = by_chance * (FLAKY_BY if night == FLAKY else 1)
        level *= (DRIVER_BY if night >= NEW_DRIVER else 1) * (SLOWER_BY if night >= SLOWER else 1)
        log = json_log(folder / f"night_{night}.json", steady_times(night, 0.2 * level), {"gpu": "H100", "batch": 8})
        date = (FIRST + timedelta(days=night)).isoformat()
        driver = "560.35" if night >= NEW_DRIVER else "550.54"
        perflog.ingest(
            log, store=store, tags={"commit": commit(night), "commit_date": f"{date}+00:00", "driver_version": driver}
        )
    Store(store).compact()  # few files: a test reads them some times
    return perflog.load(store)


def after(story: perflog.Log, night: int) -> Track:
    """What is known after a night."""
    return track(story.select(*(run_of(story)[commit(k)] for k in range(night + 1))))


def run_of(story: perflog.Log) -> dict[str, str]:
    """The run of each commit."""
    return {settings["commit"]: run for run, settings in settings_by_run(Tables(story)).items()}


def steps(found: Track) -> str:
    """The sentences about the step time."""
    return "\n".join(text for text in found.sentences if "step_time" in text)


def test_a_figure_that_drifts_has_no_version_at_which_it_changes(tmp_path: Path) -> None:
    """Each night is 0.2 % slower than the one before."""
    levels = [by_chance * 1.002**night for night, by_chance in enumerate(scatter(NIGHTS))]
    found = track(nightly(tmp_path / "nights", levels, {"date": [f"2026-03-{k:02}" for k in range(1, NIGHTS + 1)]}))
    (course,) = (each for each in found.courses if each.figure.name == "step_time")
    assert not course.changes
    assert course.drift == pytest.approx(1.002**29 - 1, rel=0.1)
    assert "drifts by +5" in steps(found) and "with no version at which it changes" in steps(found)
    assert course.expected(29) / course.expected(0) == pytest.approx(1 + course.drift)


def test_a_flaky_night_is_not_confirmed_first_and_no_level_then(story: perflog.Log) -> None:
    too_few = after(story, FLAKY - 1)
    assert not too_few.courses
    assert {each.reason for each in too_few.left_out} == {"dllogger: 7 versions, 8 are needed"}
    that_night = after(story, FLAKY)
    assert steps(that_night).startswith(f"Since the last version, {commit(FLAKY)[:9]}: step_time +24.")
    assert "regression, not yet confirmed (p " in steps(that_night)
    assert not that_night.changes
    next_night = after(story, FLAKY + 1)
    assert not next_night.changes
    assert not next_night.unconfirmed
    assert f"Version {commit(FLAKY)[:9]} alone is an outlier, no level: step_time +24." in steps(next_night)


def test_a_new_driver_is_a_change_of_the_machine(story: perflog.Log) -> None:
    assert "step_time -2." in steps(after(story, NEW_DRIVER))
    assert "not yet confirmed" in steps(after(story, NEW_DRIVER))
    found = after(story, NEW_DRIVER + 3)
    change = next(change for course, change in found.changes if course.figure.name == "step_time")
    assert (change.before.name, change.after.name) == (commit(NEW_DRIVER - 1), commit(NEW_DRIVER))
    assert change.cause == "machine"
    assert "improvement" in steps(found)
    assert "the machine changed: driver_version 550.54 -> 560.35" in steps(found)


def test_a_slower_program_is_told_the_first_night_and_confirmed_the_next_ones(story: perflog.Log) -> None:
    last_good = steps(after(story, SLOWER - 1))
    assert last_good.count("Since") == 1  # the driver
    assert "not yet confirmed" not in last_good
    first = after(story, SLOWER)
    assert f"Since the last version, {commit(SLOWER)[:9]}: step_time +3." in steps(first)
    assert len([1 for course, _ in first.changes if course.figure.name == "step_time"]) == 1
    second = after(story, SLOWER + 1)
    latest = next(change for course, change in second.changes if course.figure.name == "step_time")
    assert latest.after.name == commit(SLOWER)
    assert latest.cause == "program"
    assert latest.low < 0.04 < latest.high
    assert "settings and machine are the same (driver_version, gpu): so the program changed" in steps(second)
    end = after(story, NIGHTS - 1)
    places = [(c.after.name, c.cause) for course, c in end.changes if course.figure.name == "step_time"]
    assert places == [(commit(SLOWER), "program"), (commit(NEW_DRIVER), "machine")]
    assert not end.unconfirmed


def test_all_formats_say_the_same(story: perflog.Log, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    story.save(store)
    known = told("track", store, "--format", "json")
    figures = {figure["figure"]: figure for test in known["tests"] for figure in test["figures"]}
    assert known["by"] == "commit"
    assert [change["cause"] for change in figures["step_time"]["changes"]] == ["machine", "program"]
    assert figures["step_time"]["better"] == "lower"
    assert [v["version"] for v in figures["step_time"]["versions"]] == [commit(k) for k in range(NIGHTS)]
    assert figures["step_time"]["versions"][FLAKY]["stands_out"] == "outlier"
    assert figures["step_time"]["versions"][0]["at"] == "2026-03-01 02:00:00"
    markdown = run("track", store, "--format", "md").stdout
    assert f"| {commit(SLOWER)[:9]} |" in markdown
    assert known["answer"][0] in markdown.replace("\\", "")
    assert len(run("track", store, "--format", "csv").stdout.splitlines()) == 1 + NIGHTS * len(figures)
    picture = tmp_path / "track.png"
    run("track", store, "-o", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_accepted_change_is_told_as_accepted(story: perflog.Log, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    story.save(store)
    runs = run_of(story)
    baselines.set_baseline("main", [runs[commit(k)] for k in range(SLOWER)], store=store)
    baselines.accept("main", [runs[commit(SLOWER + 1)]], "fp32 accumulation", store=store)
    found = track(store)
    accepted = [
        (change.after.name, found.acceptance(course, change))
        for course, change in found.changes
        if course.figure.name == "step_time"
    ]
    assert [(name, each and each.reason) for name, each in accepted] == [
        (commit(SLOWER), "fp32 accumulation"),
        (commit(NEW_DRIVER), None),
    ]
    assert any("accepted in baseline main" in text and "fp32 accumulation" in text for text in found.sentences)


def test_repeats_of_a_commit_are_one_version(tmp_path: Path) -> None:
    """Commits come in the order of their dates, whatever the names of the logs say."""
    nights = 10
    dates = [(FIRST - timedelta(days=k)).isoformat() for k in range(nights)]
    levels = [level * (1.1 if k < 4 else 1) for k, level in enumerate(scatter(nights))]
    settings = {"git_commit": [commit(k) for k in range(nights)], "commit_date": dates}
    found = track(nightly(tmp_path / "runs", levels, settings, repeats=3))
    course = next(course for course in found.courses if course.figure.name == "step_time")
    assert [version.name for version in course.versions] == [commit(k) for k in reversed(range(nights))]
    assert course.runs == (3,) * nights
    (change,) = course.changes
    assert change.after.name == commit(3)
    assert change.cause is None
    assert course.verdict(change.change) == "regression"


def test_tests_of_one_tree_are_never_pooled(tmp_path: Path) -> None:
    for number, name in enumerate(("small", "large")):
        for night in range(9):
            date = f"{FIRST + timedelta(days=night):%Y-%m-%d}"
            (tmp_path / name).mkdir(exist_ok=True)
            json_log(tmp_path / name / f"{date}.json", steady_times(night, 0.2 * (1 + number)))
    found = track(str(tmp_path), figures=("step_time",))
    assert [course.test.rpartition(", ")[2] for course in found.courses] == ["folder large", "folder small"]
    assert not found.changes


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    for night in range(9):
        date = f"{FIRST + timedelta(days=night):%Y-%m-%d}"
        json_log(tmp_path / f"{date}.json", steady_times(night), {"accuracy": 0.0})
    json_log(tmp_path / "undated.json", steady_times(77))
    (left_out,) = track(str(tmp_path)).left_out
    assert left_out.reason == "no date in the settings or in the name of the log"
    assert "undated" in left_out.label
    text = run("track", tmp_path).stdout
    assert "No metric changes by 1 % or more over 9 versions." in text
    assert "undated" in text


@pytest.mark.parametrize(
    ("name", "in_order"),
    [
        ("torch_version", ["1.13", "2.0", "2.1", "2.2", "2.9", "2.10", "2.11", "2.12"]),
        ("dropout", ["0.001", "0.05", "0.1", "0.15", "0.25", "0.3", "0.5", "0.9"]),
        ("build", ["v1", "v2", "v3", "v9", "v10", "v11", "v20", "v100"]),
    ],
)
def test_values_of_a_setting_are_versions(tmp_path: Path, name: str, in_order: list[str]) -> None:
    shuffled = [in_order[k] for k in (5, 2, 7, 0, 3, 6, 1, 4)]
    found = track(nightly(tmp_path / "runs", scatter(8), {name: shuffled}), by=name)
    assert [version.name for version in found.courses[0].versions] == in_order


def test_a_setting_that_no_run_has_is_an_error(tmp_path: Path) -> None:
    folder = nightly(tmp_path / "runs", scatter(8), {"batch": [8] * 8})
    text = run("track", folder, "--by", "batchh", code=2).output
    assert "no run has a setting `batchh`" in text


def test_json_has_no_nan(tmp_path: Path) -> None:
    folder = nightly(tmp_path / "runs", [1.0] * 8, {"date": [f"2026-01-{k:02}" for k in range(1, 9)]})
    json.loads(run("track", folder, "--format", "json").stdout, parse_constant=pytest.fail)


def test_commits_without_dates_come_in_the_order_of_ingestion(tmp_path: Path) -> None:
    log = perflog.read(nightly(tmp_path / "runs", scatter(9), {"commit": [commit(k) for k in range(9)]}))
    assert {each.reason for each in track(log).left_out} == {"no commit with a date of its own or of its runs"}
    order = [5, 2, 7, 0, 8, 3, 6, 1, 4]
    ingested = {run_of(log)[commit(k)]: f"2026-01-{place + 1:02}T02:00:00Z" for place, k in enumerate(order)}
    (test,) = versions_of_tests(Tables(log), "ingested", ingested=ingested).tests
    assert [version.name for version in test.versions] == [commit(k) for k in order]


def test_a_figure_that_no_run_has_is_an_error(story: perflog.Log) -> None:
    with pytest.raises(UsageError, match="no run has a metric `step_tim`"):
        track(story, figures=("step_tim",))


@pytest.mark.parametrize("zone", ["+00:00", "+05:30", "Z"])
def test_dates_of_commits_are_compared_in_utc(tmp_path: Path, zone: str) -> None:
    """The date of every second commit is written in another zone: the order is that of the moments."""
    offset = timedelta(hours=5, minutes=30) if zone == "+05:30" else timedelta(0)
    moments = [FIRST + timedelta(hours=k) for k in range(9)]
    dates = [
        f"{(at + offset).isoformat()}{zone}" if k % 2 else f"{at.isoformat()}+00:00" for k, at in enumerate(moments)
    ]
    settings = {"commit_sha": [commit(k) for k in range(9)], "commit_date": dates}
    found = track(nightly(tmp_path / "runs", scatter(9), settings))
    assert [version.name for version in found.courses[0].versions] == [commit(k) for k in range(9)]


def test_files_that_differ_from_their_commit_are_a_version_of_their_own(tmp_path: Path) -> None:
    settings = {
        "commit": [commit(k // 2) for k in range(18)],
        "dirty": ["no", "yes"] * 9,
        "commit_date": [(FIRST + timedelta(days=k // 2)).isoformat() for k in range(18)],
    }
    course = track(nightly(tmp_path / "runs", scatter(18), settings)).courses[0]
    assert len(course.versions) == 18
    assert course.versions[1].name == f"{commit(0)}, changed"


def test_branches_are_never_pooled(tmp_path: Path) -> None:
    settings = {
        "branch": ["main"] * 9 + ["faster"] * 9,
        "date": [f"2026-01-{k + 1:02}" for k in range(18)],
    }
    levels = [level * (0.8 if k >= 9 else 1) for k, level in enumerate(scatter(18))]
    found = track(nightly(tmp_path / "runs", levels, settings), figures=("step_time",))
    assert [course.test.rpartition(", ")[2] for course in found.courses] == ["branch main", "branch faster"]
    assert not found.changes


def test_a_driver_that_is_rolled_back_makes_no_other_test(tmp_path: Path) -> None:
    settings = {
        "driver_version": ["550"] * 8 + ["560"] * 8 + ["550"] * 8,
        "date": [f"2026-01-{k + 1:02}" for k in range(24)],
    }
    levels = [level * (0.9 if 8 <= k < 16 else 1) for k, level in enumerate(scatter(24))]
    course = track(nightly(tmp_path / "runs", levels, settings), figures=("step_time",)).courses[0]
    assert [(c.after.name, c.cause, str(c.settings[0])) for c in course.changes] == [
        ("2026-01-09", "machine", "driver_version 550 -> 560"),
        ("2026-01-17", "machine", "driver_version 560 -> 550"),
    ]


def test_hosts_in_turn_are_no_change_of_the_machine(tmp_path: Path) -> None:
    settings = {"hostname": [f"node{k % 3}" for k in range(18)], "date": [f"2026-01-{k + 1:02}" for k in range(18)]}
    levels = [level * (1.1 if k >= 9 else 1) for k, level in enumerate(scatter(18))]
    (change,) = (change for _, change in track(nightly(tmp_path / "runs", levels, settings)).changes[:1])
    assert (change.settings, change.cause) == ((), "program")


@pytest.mark.parametrize("values", [["cuda"] * 18, [f"runner-{k}" for k in range(18)]], ids=["kind", "new each night"])
def test_a_machine_that_is_not_known_is_not_said_to_be_the_same(tmp_path: Path, values: list[str]) -> None:
    settings = {
        "device" if "cuda" in values else "runner": values,
        "date": [f"2026-01-{k + 1:02}" for k in range(18)],
    }
    levels = [level * (1.1 if k >= 9 else 1) for k, level in enumerate(scatter(18))]
    (change,) = (change for _, change in track(nightly(tmp_path / "runs", levels, settings)).changes[:1])
    assert (change.same_machine, change.settings, change.cause) == ((), (), None)


# --- its parts ----------------------------------------------------------------------------------------------------

STEP = Measure("step", "step_time")
RATE = Measure("step", "tokens_per_s", "1/s", "higher", derived=True)
LAST, LAST_AT = Measure("value", "loss"), Measure("value", f"loss{AT_STEP}100")
KERNEL = Measure("kernel", "gemm")


@pytest.mark.parametrize(
    ("measures", "wanted", "chosen"),
    [
        ([STEP, RATE, KERNEL], (), [STEP]),
        ([RATE, KERNEL], (), [RATE]),
        ([KERNEL], (), [KERNEL]),
        ([STEP, LAST, LAST_AT], (), [STEP, LAST_AT]),
        ([STEP, LAST], (), [STEP, LAST]),
        ([STEP, RATE, KERNEL], ["TOKENS*", "gemm"], [RATE, KERNEL]),
        ([], (), []),
    ],
)
def test_the_metrics_that_are_tracked(measures: list[Measure], wanted: list[str], chosen: list[Measure]) -> None:
    """A rate that follows from a step time is no other metric; kernels are only if there is nothing else."""
    assert module._chosen(measures, wanted) == chosen


@pytest.mark.parametrize(
    ("said", "better"),
    [
        (["lower"], "lower"),
        (["higher"] * 2, "higher"),
        (["lower", "higher"], None),
        ([None], None),
        (["lower", None], None),
    ],
)
def test_runs_say_which_way_is_better(said: list[str | None], better: str | None) -> None:
    assert module._better_of([{"better": each} if each else {} for each in said]) == better


@pytest.mark.parametrize(
    ("p", "off"),
    [
        ([LAST_P], [True]), ([LAST_P * 1.01], [False]), ([LAST_P, 1.0], [False, False]),
        ([LAST_P, LAST_P / 2], [True, True]), ([LAST_P / 2, 1.0], [True, False]), ([math.nan, LAST_P], [False, True]),
        ([LAST_P * 0.9, LAST_P * 0.6, 1.0], [False, False, False]), ([math.nan], [False]),
    ],
)  # fmt: skip
def test_the_last_version_is_off_among_all_metrics(
    monkeypatch: pytest.MonkeyPatch, p: list[float], off: list[bool]
) -> None:
    monkeypatch.setattr(module, "replace", lambda _, is_last_off: SimpleNamespace(is_last_off=is_last_off))
    courses: Any = [SimpleNamespace(course=SimpleNamespace(last_p=each)) for each in p]
    assert [course.is_last_off for course in module._surely_off(courses)] == off


HASH = "0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (HASH, HASH[:9]), (HASH[:12].upper(), HASH[:9].upper()), (HASH[:11], HASH[:11]),
        (f"{HASH},dirty", f"{HASH[:9]},dirty"),
        ("v2.10.0-release", "v2.10.0-release"), ("", ""),
    ],
)  # fmt: skip
def test_a_commit_is_shown_by_nine_digits(name: str, text: str) -> None:
    assert module.short(name) == text


def test_what_to_do_without_enough_versions() -> None:
    assert module._advice("commit") == module._advice("date") and "--by SETTING" in module._advice("date")
    assert module._advice("ingested") == "Other runs need dates or commits."
    assert module._advice("torch") == "`perflog compare --by torch` compares few versions."


def changed(*settings: str, cause: str = "program", same: Sequence[str] = ("gpu",)) -> Any:
    """A change of level with settings that change."""
    named = [ChangedSetting(name, "a", "b") for name in settings]
    return SimpleNamespace(settings=named, cause=cause, same_machine=same)


def test_what_changed_with_a_level_in_words() -> None:
    driver, batch = "driver_version a -> b", "batch a -> b"
    assert module.cause_words(changed("driver_version")) == f"the machine changed: {driver}"
    both = f"the machine changed: {driver}; settings changed: {batch}"
    assert module.cause_words(changed("batch", "driver_version")) == both
    assert module.cause_words(changed("batch")) == f"settings changed: {batch}"
    assert module.cause_words(changed(cause="unknown")) is None
    names = [f"n{k}" for k in range(module._OTHERS)]
    text = "settings and machine are the same ({}): so the program changed"
    assert module.cause_words(changed(same=names)) == text.format(", ".join(names))
    assert module.cause_words(changed(same=[*names, "x"])) == text.format(f"{', '.join(names)} and more")


@pytest.mark.parametrize(
    ("at", "name", "text"),
    [
        ("2026-03-01T02:00:00", "c", " (2026-03-01T02:00)"),
        ("2026-03-01", "2026-03-01", ""),
        ("", "c", ""),
        (None, "c", ""),
    ],
)
def test_the_date_of_a_version(at: str | None, name: str, text: str) -> None:
    change: Any = SimpleNamespace(after=SimpleNamespace(at=at, name=name))
    assert module._date(change) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.039, 0.045, "(+3.9 to +4.5 %)"), (math.nan, 0.1, ""), (0.1, math.inf, ""), (-math.inf, 0.1, "")],
)
def test_the_interval_of_a_change(low: float, high: float, text: str) -> None:
    change: Any = SimpleNamespace(low=low, high=high)
    assert module.interval(change) == text
    assert module._number(low) == (low if math.isfinite(low) else None)


def test_sentences_begin_with_what_tests_do_not_share() -> None:
    of: Any = SimpleNamespace(courses=[SimpleNamespace(test=name) for name in ("a, x, b", "a, y, b", "a, x, b")])
    assert module.test_names(of) == {"a, x, b": "x", "a, y, b": "y"}
    of.courses = of.courses[:1]
    assert module.test_names(of) == {"a, x, b": ""}
    of.courses = []
    assert module.test_names(of) == {}
    assert module._sentence("x", "it is slow") == "x: it is slow."
    assert module._sentence("", "it is slow") == "It is slow."


def test_drift_and_calm_are_said_from_the_threshold_on(monkeypatch: pytest.MonkeyPatch) -> None:
    course = SimpleNamespace(
        test="t", figure=SimpleNamespace(name="step"), drift=-0.02, changes=(), versions=range(9),
        course=SimpleNamespace(outliers=()),
    )  # fmt: skip
    of: Any = SimpleNamespace(courses=[course], unconfirmed=[], changes=[], threshold=0.02, by="commit")
    assert list(module._sentences(of)) == [
        "Over 9 versions step drifts by -2.0 %, with no version at which it changes."
    ]
    course.changes = ("change",)
    assert next(module._sentences(of)).endswith(" beside its changes.")
    of.threshold = 0.021
    assert list(module._sentences(of)) == ["No metric changes by 2.1 % or more over 9 versions."]
    of.courses = []
    assert list(module._sentences(of)) == [f"No metric has enough versions. {module._advice('commit')}"]
