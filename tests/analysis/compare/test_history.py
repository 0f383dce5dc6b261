"""Few runs a side: other repeats of the runs, in a store or a folder, tell how much runs differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.json_logs import json_log, steady_times

import perflog
from perflog.analysis.compare import Comparison
from perflog.analysis.compare.history import History
from perflog.analysis.compare.rows import FigureRow
from perflog.cli.main import main
from perflog.metrics.compared import STEP_TIME
from perflog.statistics.students_t import t_quantile

SETTINGS = {"layers": 4, "seed": 0}


def log(folder: Path, seed: int, level: float, steps: int = 40, **settings: object) -> str:
    """Write a run of a program; `seed` is that of its steps and one of its settings."""
    folder.mkdir(parents=True, exist_ok=True)
    return json_log(folder / f"{seed}.json", steady_times(seed, level, steps), SETTINGS | {"seed": seed} | settings)


def logs(folder: Path, levels: Sequence[float], first: int = 1, **settings: str) -> list[str]:
    """Write one run for each level of step times."""
    return [log(folder, first + k, level, 40, **settings) for k, level in enumerate(levels)]


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, ["compare", *args])


def mean_row(compared: Comparison) -> FigureRow:
    (row,) = [row for row in compared.headlines if row.statistic == "mean"]
    return row


LEVELS = (0.200, 0.204, 0.198, 0.203, 0.197)


def test_the_interval_is_that_of_other_repeats(tmp_path: Path) -> None:
    """Twice the variance of the repeats, and their degrees of freedom."""
    repeats = logs(tmp_path / "history", LEVELS)
    base, side = log(tmp_path / "a", 50, 0.2), log(tmp_path / "b", 60, 0.23)
    row = mean_row(perflog.compare(base, side, history=[tmp_path / "history"], warmup=0))
    means = [np.mean(np.diff([0, *np.cumsum(steady_times(k, level))])[1:]) for k, level in enumerate(LEVELS, 1)]
    scatter = float(np.std(np.log(means), ddof=1))
    assert (row.scope, row.history_runs, row.freedom) == ("history", 5, 4)
    assert row.history_scatter == pytest.approx(scatter, rel=0.01)
    arm = t_quantile(0.975, 4) * math.sqrt(2) * row.history_scatter
    assert row.change_high == pytest.approx(math.expm1(math.log1p(row.change) + arm))
    assert row.base_high == pytest.approx(row.base_value * math.exp(t_quantile(0.975, 4) * row.history_scatter))
    assert row.verdict == "regression"  # no longer exploratory
    assert len(repeats) == row.history_runs


def test_a_change_within_the_scatter_of_runs_is_no_finding(tmp_path: Path) -> None:
    """Within the runs it seems sure; their repeats differ by more."""
    logs(tmp_path / "history", (0.19, 0.21, 0.20, 0.215, 0.185))
    base, side = log(tmp_path / "a", 50, 0.2), log(tmp_path / "b", 60, 0.212)
    alone = perflog.compare(base, side)
    assert mean_row(alone).verdict == "exploratory regression"
    known = perflog.compare(base, side, history=[str(tmp_path / "history")])
    assert mean_row(known).verdict == "inconclusive"
    assert "runs per side to decide" in mean_row(known).advice
    shown = " ".join(invoke(base, side, "--history", str(tmp_path / "history")).stdout.split())
    assert "run-to-run variation, estimated from 5 other repeats (standard deviation): step_time 6.5 %" in shown


def test_the_store_of_a_side_is_its_history(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    names = [*logs(tmp_path / "runs", LEVELS), log(tmp_path / "runs", 50, 0.2)]
    assert CliRunner().invoke(main, ["ingest", "--store", store, *names]).exit_code == 0
    new = log(tmp_path / "new", 60, 0.206)
    (run,) = [key.id for key in perflog.load(store).run_keys if key.log == names[-1]]
    row = mean_row(perflog.compare(f"{store}#{run}", new))
    assert (row.scope, row.history_runs) == ("history", 5)  # neither of both sides is its own repeat
    assert mean_row(perflog.compare(f"{store}#{run}", new, history=[])).scope == "steps"
    assert mean_row(perflog.compare(run, new, store=store)).history_runs == 5
    assert mean_row(perflog.compare(names[-1], new)).scope == "steps"  # a log comes from no store


def test_only_other_repeats_count(tmp_path: Path) -> None:
    history = tmp_path / "history"
    logs(history, LEVELS[:3])
    log(history, 11, 0.3, layers=8)  # another program
    log(history, 12, 0.3, steps=10)  # broke off
    base, side = log(tmp_path / "a", 50, 0.2), log(tmp_path / "b", 60, 0.21)
    json_log(history / "copy.json", steady_times(1, LEVELS[0]), SETTINGS | {"seed": 77})
    json_log(history / "beginning.json", steady_times(2, LEVELS[1])[:30], SETTINGS)
    json_log(history / "same.json", steady_times(50, 0.2), SETTINGS | {"seed": 88})  # of the base
    row = mean_row(perflog.compare(base, side, history=[history]))
    assert row.history_runs == 3
    assert mean_row(perflog.compare(base, side, history=[history], ignore=["layers"])).history_runs == 4


def test_runs_of_another_machine_do_not_count(tmp_path: Path) -> None:
    logs(tmp_path / "history", LEVELS[:3], hostname="node1")
    logs(tmp_path / "history", (0.3, 0.4), first=20, hostname="node2")
    base, side = log(tmp_path / "a", 50, 0.2, hostname="node1"), log(tmp_path / "b", 60, 0.21, hostname="node1")
    assert mean_row(perflog.compare(base, side, history=[tmp_path / "history"])).history_runs == 3
    unnamed = log(tmp_path / "c", 70, 0.21)  # nothing says where it ran
    row = mean_row(perflog.compare(base, unnamed, history=[tmp_path / "history"]))
    assert row.history_runs == 5
    assert row.history_scatter == pytest.approx(
        math.sqrt((2 * 0.02**2 + (math.log(4 / 3) ** 2) / 2) / 3), rel=0.03
    )  # each machine about its own mean


def test_each_folder_is_a_group_of_its_own(tmp_path: Path) -> None:
    """Before and after differ by 10 %; that is no scatter."""
    folders = [tmp_path / "before", tmp_path / "after"]
    for folder, level, first in zip(folders, (0.2, 0.22), (1, 20), strict=True):
        logs(folder, [level * x for x in (0.999, 1, 1.001)], first)
    base, side = log(tmp_path / "a", 50, 0.2), log(tmp_path / "b", 60, 0.22)
    row = mean_row(perflog.compare(base, side, history=folders))
    assert row.history_runs == 6
    assert row.freedom == pytest.approx(4)
    assert row.history_scatter < 0.005
    single = [str(path) for folder in folders for path in sorted(folder.iterdir())]
    assert mean_row(perflog.compare(base, side, history=single)).history_scatter > 0.04  # single logs are one group


def test_equal_repeats_leave_the_rounding_of_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    for k in range(3):
        json_log(folder / f"{k}.json", [0.2013] * 20 + [0.2 + k / 10], {"seed": k})
    sides = [json_log(tmp_path / f"{k}.json", [level] * 20, {"seed": k}) for k, level in ((8, 0.2013), (9, 0.2511))]
    row = next(row for row in perflog.compare(*sides, history=[folder], warmup=0).headlines)
    assert (row.statistic, row.scope) == ("median", "history")
    assert 0 < row.history_scatter < 2e-4
    assert row.verdict == "regression"


def test_without_a_history_the_reason_says_what_a_second_run_tells(tmp_path: Path) -> None:
    base, side = log(tmp_path / "a", 50, 0.2), log(tmp_path / "b", 60, 0.22)
    row = mean_row(perflog.compare(base, side))
    assert row.history_runs == 0
    most = math.log1p(row.change) / t_quantile(0.975, 2)
    assert f"is significant if runs vary by less than {100 * math.expm1(most):.2g} %" in row.advice
    same = mean_row(perflog.compare(base, log(tmp_path / "c", 70, 0.2)))
    assert same.advice.startswith("it would take at least ")  # the steps alone leave it open


def test_a_gate_takes_the_scatter_of_the_history(tmp_path: Path) -> None:
    """Without it, a gate asks for 5 %, whatever the runs."""
    base, side = log(tmp_path / "a", 50, 0.2), log(tmp_path / "b", 60, 0.206)
    assert invoke(base, side, "--fail-on", "regression").exit_code == 0
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    logs(quiet, [0.2 * x for x in (0.999, 1, 1.001, 0.9995, 1.0005, 1.001)])
    logs(loud, [0.2 * x for x in (0.9, 1, 1.1, 0.95, 1.05, 1.1)])
    assert invoke(base, side, "--fail-on", "regression", "--history", str(quiet)).exit_code == 1
    far = log(tmp_path / "c", 70, 0.24)
    assert invoke(base, far, "--fail-on", "regression").exit_code == 1
    assert invoke(base, far, "--fail-on", "regression", "--history", str(loud)).exit_code == 0


def several(folder: Path, of_base: Sequence[float], of_side: Sequence[float], days: Sequence[str] = ()) -> list[str]:
    """Write runs of two sides, one for each level; `days` are those of the base, then of the side."""
    levels = [("a", level) for level in of_base] + [("b", level) for level in of_side]
    written = []
    for k, (side, level) in enumerate(levels):
        at = {"started": days[k]} if days else {}
        written.append(f"{side}={log(folder / side, 50 + k, level, 40, **at)}")
    return written


def test_few_runs_a_side_take_the_scatter_of_a_named_history_too(tmp_path: Path) -> None:
    """Of three runs a side and five others: 2 + 2 + 4 degrees of freedom, and an interval that is narrower."""
    logs(tmp_path / "history", LEVELS)
    sides = several(tmp_path, (0.2, 0.203, 0.198), (0.204, 0.207, 0.202))
    alone, row = mean_row(perflog.compare(*sides)), mean_row(perflog.compare(*sides, history=[tmp_path / "history"]))
    assert (alone.scope, row.scope, row.history_runs, row.freedom) == ("runs", "history", 5, 8)
    assert row.change == pytest.approx(alone.change)
    assert row.change_high - row.change_low < alone.change_high - alone.change_low
    assert row.sessions is None
    shown = " ".join(invoke(*sides, "--history", str(tmp_path / "history")).stdout.split())
    assert "Few runs per side; run-to-run variation, estimated from both sides and 5 other repeats" in shown


def test_sides_that_scatter_more_than_their_history_keep_their_scatter(tmp_path: Path) -> None:
    logs(tmp_path / "quiet", [level / 100 + 0.2 for level in LEVELS])
    loud = several(tmp_path, (0.2, 0.22, 0.18), (0.204, 0.19, 0.22))
    assert mean_row(perflog.compare(*loud, history=[tmp_path / "quiet"])).scope == "runs"


def test_other_repeats_that_surely_scatter_more_count_as_sessions(tmp_path: Path) -> None:
    """What makes them differ may make both sides differ: the error is that of two single ones of them."""
    logs(tmp_path / "loud", (0.2, 0.25, 0.16, 0.3, 0.19))
    calm = several(tmp_path / "calm", (0.2, 0.2002, 0.1999), (0.201, 0.2012, 0.2011))
    row = mean_row(perflog.compare(*calm, history=[tmp_path / "loud"]))
    assert (row.scope, row.sessions, row.verdict) == ("history", "held", "inconclusive")
    assert row.error == pytest.approx(math.sqrt(2) * row.history_scatter, rel=0.01)


def test_the_store_of_the_sides_counts_for_single_runs_only(tmp_path: Path) -> None:
    store = tmp_path / "store"
    perflog.ingest(*logs(tmp_path / "logs", LEVELS), store=store)
    ids = list(perflog.load(store).table("runs")["run"])
    row = mean_row(perflog.compare(ids[:2], ids[2:4], store=store))
    assert (row.scope, row.history_runs) == ("runs", 0)


DAYS = [f"2026-03-{day:02}" for day in range(1, 11)]


def nights(folder: Path, apart: Sequence[float]) -> None:
    """Write two runs of each night, which differ by 0.1 %."""
    for k, (day, level) in enumerate(zip(DAYS, apart, strict=False)):
        log(folder, 100 + 2 * k, level, started=day)
        log(folder, 101 + 2 * k, level * 1.001, started=day)


def test_the_interval_of_other_sessions_holds_how_much_these_differ(tmp_path: Path) -> None:
    """Nights differ by 2 %, runs of a night by 0.1 %: the same change is sure within a night only."""
    nights(tmp_path / "history", (0.2, 0.204, 0.197, 0.202, 0.199))
    levels = (0.2, 0.2002, 0.2001), (0.203, 0.2032, 0.2031)
    on = ["2026-04-01"] * 3
    together = several(tmp_path / "together", *levels, on * 2)
    apart = several(tmp_path / "apart", *levels, on + ["2026-04-02"] * 3)
    known = [str(tmp_path / "history")]
    row = mean_row(perflog.compare(*together, history=known))
    assert (row.sessions, row.verdict, row.fails) == ("same", "regression", True)
    assert row.session_scatter == pytest.approx(0.013, rel=0.3)
    other = mean_row(perflog.compare(*apart, history=known))
    assert (other.sessions, other.verdict, other.fails) == ("held", "inconclusive", False)
    assert "in turns" in other.advice
    assert other.error == pytest.approx(math.sqrt(2) * row.session_scatter, rel=0.1)
    shown = " ".join(invoke(*apart, "--history", *known).stdout.split())
    assert "ran in different sessions (days, hosts or jobs); the interval includes the variation" in shown
    alone = mean_row(perflog.compare(*apart))
    assert (alone.sessions, alone.verdict, alone.fails) == ("left out", "regression", False)
    assert "the variation between sessions is unknown, and the change may be below 2 %" in alone.advice
    slower = several(tmp_path / "slower", levels[0], (0.206, 0.2062, 0.2061), on + ["2026-04-02"] * 3)
    assert mean_row(perflog.compare(*slower)).fails  # 3 % and more, which no known sessions differ by
    shown = " ".join(invoke(*apart).stdout.split())
    assert "the interval includes only the variation within a session" in shown


def test_sessions_of_the_sides_themselves_tell_how_much_these_differ(tmp_path: Path) -> None:
    """A base of four nights, two runs each, and a side of one night."""
    levels = [level * factor for level in (0.2, 0.204, 0.197, 0.202) for factor in (1, 1.001)]
    days = [day for day in DAYS[:4] for _ in range(2)]
    sides = several(tmp_path, levels, (0.203, 0.2032, 0.2031), [*days, *["2026-04-02"] * 3])
    row = mean_row(perflog.compare(*sides))
    assert (row.scope, row.sessions, row.fails) == ("runs", "held", False)


def test_a_tag_names_the_session(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for k, level in enumerate((0.2, 0.2002, 0.21, 0.2102)):
        perflog.ingest(log(tmp_path / "logs", k, level), store=store, tags={"session": "one" if k % 2 else "two"})
    ids = list(perflog.load(store).table("runs")["run"])
    row = mean_row(perflog.compare(ids[:2], ids[2:], store=store))
    assert row.sessions == "same"


@pytest.mark.parametrize(
    ("enough", "runs", "is_needed"),
    [
        (3, (3, 2), True),
        (3, (3, 3), False),
        (2, (1, 1), True),
        (2, (1, 2), False),
        (2, (2, 2), False),
        (3, (1, 9), True),
    ],
)
def test_repeats_are_needed_where_a_side_has_few_runs(enough: int, runs: tuple[int, int], is_needed: bool) -> None:
    """Those that were not named: only where each side has one. Repeats with half of the steps count."""
    of_runs = {"h1": np.ones(5), "h2": np.ones(4), "h3": np.ones(30)}
    values: Any = SimpleNamespace(by_run=lambda _, names: {name: of_runs[name] for name in names})
    history = History(values, {"x": [("h1", "h2"), ("h2",), ("h3",)]}, enough)
    both = [[np.ones(10)] * number for number in runs]
    found = [list(group) for group in history.of("x", STEP_TIME, both)]
    assert found == [["h1"], ["h3"]] * is_needed
    assert list(history.of("y", STEP_TIME, both)) == []
