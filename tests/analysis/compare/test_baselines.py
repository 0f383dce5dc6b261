"""Baselines: which runs they have, levels, what a comparison takes of them, and what ends with 3."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.json_logs import json_log, steady_times

import perflog
from perflog.analysis.compare import baselines
from perflog.analysis.compare.baselines import _differing
from perflog.analysis.compare.history import Identity
from perflog.cli.main import main
from perflog.errors import StoreError, UsageError
from perflog.tables.store import Store

LEVELS = (0.200, 0.2006, 0.1994, 0.2004, 0.1996, 0.2002)


def written(folder: Path, number: int, level: float, **settings: object) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return json_log(
        folder / f"{number}.json", steady_times(number, level, 40), {"layers": 4, "seed": number} | settings
    )


def ingested(store: Path, number: int, level: float, branch: str = "main", **settings: object) -> str:
    """Ingest a run of a branch, and return its id."""
    log = perflog.ingest(
        written(store.parent / "logs", number, level, **settings), store=store, tags={"branch": branch}
    )
    return log.run_keys[0].id


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with six runs of main, and one of another branch. Tests copy it."""
    store = tmp_path_factory.mktemp("filled") / "store"
    for k, level in enumerate(LEVELS):
        ingested(store, k, level)
    ingested(store, 50, 0.3, "topic")
    Store(store).compact()  # few files: each test reads them all
    return store


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(filled, tmp_path / "store")
    return tmp_path / "store"


def invoke(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def runs_of(name: str, store: Path) -> list[list[str]]:
    return [[k.id for k in level] for level in baselines.members(baselines.get(name, store), perflog.load(store))]


def test_a_condition_chooses_runs_now_and_later(store: Path) -> None:
    baselines.set_baseline("main", where="branch = main", store=store)
    assert len(runs_of("main", store)[0]) == 6
    new = ingested(store, 7, 0.2)
    ingested(store, 51, 0.2, "topic")
    assert runs_of("main", store)[0][-1] == new
    assert len(runs_of("main", store)[0]) == 7


def test_named_runs_are_ids_labels_and_logs_of_the_store(store: Path, tmp_path: Path) -> None:
    ids = [key.id for key in perflog.load(store).run_keys]
    log = written(tmp_path / "logs", 80, 0.2)
    with pytest.raises(UsageError, match="not in the store"):
        baselines.set_baseline("two", [ids[0], log], store=store)
    added = perflog.ingest(log, store=store, label="added").run_keys[0].id
    for name in (log, "added", added):
        baselines.set_baseline("two", [ids[0], name], store=store)
        assert sorted(runs_of("two", store)[0]) == sorted([ids[0], added])


def test_the_last_runs_of_the_same_settings_are_the_base(store: Path, tmp_path: Path) -> None:
    for k in range(3):
        ingested(store, 60 + k, 0.4, layers=8)
    baselines.set_baseline("main", where="branch = main", last=4, store=store)
    new = {"new": [written(tmp_path / "new", 90 + k, level) for k, level in enumerate((0.2, 0.2003, 0.1998))]}
    compared = perflog.compare(new, baseline="main", store=store)
    assert compared.sides == ("main", "new")
    assert compared.verdict == "equivalent"
    last = perflog.load(store)
    chosen = baselines.members(baselines.get("main", store), last)[0]
    of_settings = [key.id for key in chosen if key.id in set(compared.cases[0].runs[0])]
    assert len(of_settings) == 4
    (row,) = [row for row in compared.headlines if row.statistic == "mean"]
    assert (row.scope, row.base_runs, row.side_runs, row.freedom) == ("history", 4, 3, 5)
    wide = perflog.compare({"new": [written(tmp_path / "new", 70, 0.4, layers=8)]}, baseline="main", store=store)
    assert len(wide.cases[0].runs[0]) == 3


def test_an_accepted_change_begins_a_level(store: Path, tmp_path: Path) -> None:
    """The runs before tell how much runs differ, and are no base."""
    baselines.set_baseline("main", where="branch = main", store=store)
    slower = [ingested(store, 20 + k, 1.05 * level, "topic") for k, level in enumerate(LEVELS[:3])]
    new = {"new": [written(tmp_path / "new", 30 + k, 1.05 * level) for k, level in enumerate(LEVELS[3:])]}
    before = perflog.compare(new, baseline="main", store=store)
    assert (before.verdict, before.headlines[0].fails) == ("regression", True)
    changed = baselines.accept("main", slower, "fp32 sums", store)
    assert [level.reason for level in changed.levels] == ["", "fp32 sums"]
    assert [len(level) for level in runs_of("main", store)] == [6, 3]
    after = perflog.compare(new, baseline="main", store=store)
    assert after.verdict == "equivalent"
    assert set(after.cases[0].runs[0]) == set(slower)
    assert after.headlines[0].history_runs == 6
    shown = invoke("baseline", "show", "main", "--store", store).stdout
    assert "fp32 sums" in shown
    assert "branch = main" in invoke("baseline", "list", "--store", store).stdout


def test_runs_of_the_second_in_which_a_level_began_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six runs of main, one that is accepted, and one of main after it: each is ingested a millisecond later."""
    dates = iter(f"2100-03-01T09:30:15.{k:03}Z" for k in range(8))
    monkeypatch.setattr("perflog.tables.store.writer.utc_now", lambda: next(dates))
    store = tmp_path / "store"
    before = [ingested(store, k, 0.2) for k in range(6)]
    accepted, after = ingested(store, 20, 0.21, "topic"), ingested(store, 21, 0.21)
    baselines.set_baseline("main", where="branch = main", store=store)
    baselines.accept("main", [accepted], "fp32 sums", store)
    assert runs_of("main", store) == [before, [accepted, after]]


def test_a_run_that_was_ingested_with_an_accepted_one_is_of_the_level_before(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have one date, and only one of them was accepted."""
    monkeypatch.setattr("perflog.tables.store.writer.utc_now", lambda: "2100-03-01T09:30:15.000Z")
    other, accepted = ingested(store, 60, 0.21), ingested(store, 61, 0.21)
    baselines.set_baseline("main", where="branch = main", store=store)
    baselines.accept("main", [accepted], "fp32 sums", store)
    before, since = runs_of("main", store)
    assert (len(before), since) == (7, [accepted])
    assert other in before


def test_the_compared_run_is_no_base_of_itself(store: Path) -> None:
    baselines.set_baseline("main", where="branch = main", store=store)
    new = runs_of("main", store)[0][-1]
    assert new not in perflog.compare(new, baseline="main", store=store).cases[0].runs[0]


def test_runs_are_added_and_taken_out(store: Path) -> None:
    baselines.set_baseline("main", where="branch = main", store=store)
    of_main = runs_of("main", store)[0]
    topic = next(key.id for key in perflog.load(store).run_keys if key.id not in of_main)
    assert invoke("baseline", "accept", "main", topic, "--store", store).stdout == "main: 7 runs\n"
    assert invoke("baseline", "rm", "main", of_main[0], "--store", store).stdout == "main: 6 runs\n"
    again = invoke("baseline", "rm", "main", of_main[0], "--store", store)
    assert again.exit_code == 2
    assert set(runs_of("main", store)[0]) == {*of_main[1:], topic}
    assert invoke("baseline", "rm", "main", "--store", store).stdout == "main: removed\n"
    assert baselines.read(store) == {}


def test_a_missing_baseline_ends_with_3_and_a_document(store: Path, tmp_path: Path) -> None:
    baselines.set_baseline("main", where="branch = main", store=store)
    log = written(tmp_path / "new", 30, 0.2)
    for gates in ((), ("--gate", "regression")):
        missing = invoke("compare", log, "--baseline", "mian", "--store", store, "--format", "json", *gates)
        assert missing.exit_code == 3
        assert "did you mean `main`?" in json.loads(missing.stdout)["error"]
    other = written(tmp_path / "new", 31, 0.2, layers=8)
    refused = invoke(
        "compare", other, "--baseline", "main", "--store", store, "--format", "json", "--gate", "regression"
    )
    document = json.loads(refused.stdout)
    assert refused.exit_code == 3
    assert "no runs of these settings: layers 8 (baseline 4)" in document["error"]
    assert document["gates"][0]["result"] == "cannot judge"
    assert invoke("compare", other, "--baseline", "main", "--store", store, "--ignore", "layers").exit_code == 0
    assert invoke("compare", log, "--baseline", "main", "--store", store, "--base", "x").exit_code == 2


def test_what_makes_no_baseline(store: Path) -> None:
    assert invoke("baseline", "set", "x", "--store", store).exit_code == 2
    assert invoke("baseline", "set", "x", "--where", "branch =", "--store", store).exit_code == 2
    baselines.set_baseline("main", [runs_of_any(store)], store=store)
    with pytest.raises(UsageError, match="there are no runs to accept"):
        baselines.accept("main", (), "a reason", store)
    (store / baselines.FILE).write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        baselines.read(store)


def runs_of_any(store: Path) -> str:
    return perflog.load(store).run_keys[0].id


def test_processes_lose_nothing_of_each_other(store: Path) -> None:
    run = runs_of_any(store)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: baselines.set_baseline(f"b{k}", [run], store=store), range(16)))
    assert set(baselines.read(store)) == {f"b{k}" for k in range(16)}


def test_a_tag_counts_only_where_both_runs_have_it() -> None:
    first, second = (
        Identity(settings, {})
        for settings in ({"batch": "8", "tag": "x", "only": "1"}, {"batch": "16", "lr": "2", "tag": "y"})
    )
    assert _differing(first, second, {"tag", "only"}) == ["batch", "tag", "lr"]
    assert _differing(first, second, {"only", "lr"}) == ["batch", "tag"]
    assert _differing(first, first, ()) == []


def test_a_condition_knows_settings_by_their_last_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of the whole name comes first."""
    settings = {"r": {"optimizer.lr": 1, "model.size": 5}, "s": {"optimizer.lr": 1, "lr": 2}, "t": {}}
    monkeypatch.setattr(baselines, "Side", lambda *_: SimpleNamespace(settings=settings))
    log: Any = SimpleNamespace(ingested={"t": "2026-01-02"})
    assert list(baselines._chosen("lr == 1", log)) == ["r"] and list(baselines._chosen("lr == 2", log)) == ["s"]
    assert list(baselines._chosen("size == 5", log)) == ["r"]
    assert list(baselines._chosen("ingested > 2026-01-01", log)) == ["t"]
