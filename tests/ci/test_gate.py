"""A gate as a team has it: nights of the main branch, then changes, each of which ends in its own way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from html import unescape
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from support.commands import run
from support.gate_logs import change, night
from support.json_logs import json_log, steady_times

import perflog
from perflog.analysis.compare import Gate, baselines
from perflog.analysis.compare.gates import Outcome, comparison_outcome
from perflog.ci.gate import GateTask, judge
from perflog.ci.summary import summary, text
from perflog.ci.systems import Job, this_job
from perflog.errors import StoreError
from perflog.output.sheets import cell
from perflog.tables.store import Store


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with four nights of main."""
    store = tmp_path_factory.mktemp("nights") / "store"
    for k in range(4):
        judge(GateTask([night(store.parent / f"night{k}", k)], store=str(store), keep=True))
    Store(store).compact()  # few files: each test reads them all
    return store


@pytest.fixture
def store(nights: Path, tmp_path: Path) -> str:
    shutil.copytree(nights, tmp_path / "store")
    return str(tmp_path / "store")


def sizes(store: str) -> list[int]:
    return [len(level.runs) for level in baselines.get("main", store).levels]


def test_the_first_run_ever_makes_the_baseline_and_does_not_pass(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    first = judge(GateTask([night(tmp_path / "0", 0)], store=store, keep=True))
    assert (first.outcome.kind, first.outcome.code, first.has_changed) == ("no baseline", 3, True)
    assert first.kept == "The runs make baseline main: 2 runs."
    second = judge(GateTask([night(tmp_path / "1", 1)], store=store, keep=True))
    assert (second.outcome.kind, second.outcome.code, sizes(store)) == ("passed", 0, [4])


@pytest.mark.parametrize(("kind", "outcome"), [("crash", "no baseline"), ("nan", "diverged")])
def test_the_first_run_of_a_pull_request_is_not_kept(tmp_path: Path, kind: str, outcome: str) -> None:
    store = str(tmp_path / "store")
    first = judge(GateTask([change(tmp_path / kind, kind)], store=store))
    assert (first.outcome.kind, first.outcome.code, first.kept) == (outcome, 3, "")
    assert baselines.read(store) == {}


def test_a_damaged_first_run_makes_no_baseline(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    first = judge(GateTask([change(tmp_path / "nan", "nan")], store=store, keep=True))
    assert first.outcome.kind == "diverged"
    assert "do not join baseline main: " in first.kept
    assert baselines.read(store) == {}


@pytest.mark.parametrize(
    ("kind", "outcome", "code", "words"),
    [
        ("same", "passed", 0, ""),
        ("slower", "regression", 1, "change: step_time median: +3.1 %, at least +1.0 %"),
        ("crash", "ended early", 3, "change stopped at step 9 where others reach 39"),
        ("failed", "ended early", 3, "change: Ended by CUDA out of memory"),
        ("nan", "diverged", 3, "in change, so its speed is not a result"),
        ("vanished", "figure missing", 3, "change does not print what all runs of the base print: loss"),
        ("other", "other settings", 3, "layers 8 (baseline 4)"),
        ("unread", "not read", 3, "1.json"),
        ("killed", "ended early", 3, "1.json#1: Ended by a process that was killed"),
        ("monitored", "passed", 0, ""),
    ],
)
def test_each_way_to_end_has_its_outcome_and_text(
    store: str, tmp_path: Path, kind: str, outcome: str, code: int, words: str
) -> None:
    judged = judge(GateTask([change(tmp_path / kind, kind)], store=store, keep=True))
    assert (judged.outcome.kind, judged.outcome.code) == (outcome, code)
    assert words in " ".join(judged.outcome.reasons)
    joins = kind in ("same", "monitored", "other")  # the first runs of a setting are its base
    assert judged.kept.startswith("The runs join baseline main" if joins else "The runs do not join baseline main: ")
    assert judged.has_changed  # the history has all runs of main
    written = summary(judged.outcome, "gate", judged.comparison, judged.gates, judged.kept)
    assert written.startswith(f"### {'✅' if code == 0 else '❌' if code == 1 else '⚠️'} perflog gate: ")
    assert f"exit code {code}" in written
    assert (judged.base_dates != ()) == (judged.comparison is not None)
    assert judged.outcome.title in written.partition("\n")[0]


def test_a_regression_beats_what_cannot_be_judged(store: str, tmp_path: Path) -> None:
    change(tmp_path / "change", "slower")
    for path in sorted((tmp_path / "change").iterdir()):
        path.write_text(path.read_text("utf-8").replace('"loss"', '"other_count"'), "utf-8")
    judged = judge(GateTask([str(tmp_path / "change")], store=store))
    assert (judged.outcome.kind, judged.outcome.code) == ("regression", 1)
    assert "all runs of the base print: loss" in judged.outcome.reasons[-1]


def test_a_figure_that_may_be_missing(store: str, tmp_path: Path) -> None:
    judged = judge(GateTask([change(tmp_path / "gone", "vanished")], store=store, may_lack=["loss"]))
    assert judged.outcome == Outcome("passed")
    required = [Gate(), Gate("loss", required=True)]
    judged = judge(GateTask([change(tmp_path / "gone", "vanished")], store=store, may_lack=["loss"], gates=required))
    assert (judged.outcome.kind, judged.outcome.code) == ("figure missing", 3)


def test_a_baseline_that_cannot_be_kept_is_not_green(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StoreError("the disk is full", store)

    monkeypatch.setattr(baselines, "accept", fails)
    judged = judge(GateTask([change(tmp_path / "change")], store=store, keep=True))
    assert (judged.outcome.kind, judged.outcome.code, judged.has_changed) == ("error", 3, False)
    assert judged.outcome.reasons == (f"{store}: the disk is full",)


def test_fewer_runs_than_there_should_be(store: str, tmp_path: Path) -> None:
    judged = judge(GateTask([change(tmp_path / "change")], store=store, least_runs=4))
    assert (judged.outcome.kind, judged.outcome.reasons) == ("not read", ("3 runs of 4 were read",))
    nothing = judge(GateTask([str(tmp_path / "*.nothing")], store=store))
    assert (nothing.outcome.kind, nothing.outcome.code) == ("not read", 3)


def test_an_accepted_change_begins_a_level_and_the_next_run_passes(store: str, tmp_path: Path) -> None:
    slower = change(tmp_path / "slower", "slower")
    refused = judge(GateTask([slower], store=store, keep=True))
    assert refused.kept == "The runs do not join baseline main: a gate failed."
    accepted = judge(GateTask([slower], store=store, keep=True, accept="sums in fp32"))
    assert (accepted.outcome.code, sizes(store)) == (1, [8, 3])
    assert accepted.kept == "The runs begin a new level of baseline main: sums in fp32."
    assert judge(GateTask([night(tmp_path / "next", 30, 1.03)], store=store)).outcome.kind == "passed"


def test_a_sure_improvement_begins_a_level(store: str, tmp_path: Path) -> None:
    """Beside the slower runs before it, half of it could be lost again unseen."""
    judged = judge(GateTask([change(tmp_path / "faster", "faster")], store=store, keep=True))
    assert judged.outcome.kind == "passed"
    assert "a new level of baseline main: improvement, step_time -" in judged.kept
    assert sizes(store) == [8, 3]
    assert judge(GateTask([night(tmp_path / "back", 30, 0.98)], store=store)).outcome.kind == "regression"


def test_runs_in_turns_need_no_store(tmp_path: Path) -> None:
    base, slower = change(tmp_path / "base"), change(tmp_path / "change", "slower", 600)
    task = GateTask([slower], [base], store=str(tmp_path / "store"), keep=True)
    judged = judge(task)
    assert judged.comparison is not None
    assert judged.comparison.sides == ("base", "change")
    assert (judged.outcome.kind, judged.kept, (tmp_path / "store").exists()) == ("regression", "", False)
    assert judge(GateTask([base], [base])).outcome.kind == "copy"


@pytest.mark.parametrize("side", ["base", "change"])
def test_a_log_that_was_found_and_nobody_can_read(tmp_path: Path, side: str) -> None:
    for name, seed in (("base", 500), ("change", 600)):
        change(tmp_path / name, "same", seed)
    (tmp_path / side / "9.json").write_text("")
    (tmp_path / side / "README.md").write_text("How to read these")
    judged = judge(GateTask([str(tmp_path / "change")], [str(tmp_path / "base")]))
    assert (judged.outcome.kind, judged.outcome.code) == ("not read", 3)
    (reason,) = judged.outcome.reasons
    assert "9.json: the log is empty" in reason


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_writes_a_summary_with_every_exit_code(store: str, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    options = ("--store", store, "--summary", file)
    done = run("ci", "gate", change(tmp_path / "slower", "slower"), *options, code=1)
    assert "gate: a gate failed (exit code 1)" in done.stdout
    assert file.read_text("utf-8").startswith("### ❌ perflog gate: a gate failed, step_time +3.1 %")
    run("ci", "gate", tmp_path / "none.txt", *options, code=3)
    assert "cannot judge, a log was not read" in file.read_text("utf-8")
    run("ci", "gate", change(tmp_path / "slower", "slower"), *options, "--tag", "x", code=2)
    assert "perflog ended before it had a result" in file.read_text("utf-8")


def test_a_fault_of_perflog_is_no_regression(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perflog.ci import gate

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    file = tmp_path / "summary.md"
    monkeypatch.setattr(gate, "write_page", fails)
    run("ci", "gate", change(tmp_path / "same"), "--store", store, "--page", tmp_path / "x.html", code=0)
    monkeypatch.setattr(gate, "compare", fails)
    done = run("ci", "gate", change(tmp_path / "same"), "--store", store, "--summary", file, code=3)
    assert "ZeroDivisionError: a fault" in done.stderr
    assert "perflog ended before it had a result" in file.read_text("utf-8")


def test_the_page_has_the_comparison_of_the_gate(tmp_path: Path) -> None:
    logs = [json_log(tmp_path / f"{k}.json", steady_times(k, 0.2 + k / 40, 12)) for k in range(2)]
    options = ("--gate", "step_time:+3%", "--page", tmp_path / "page.html", "--summary", tmp_path / "summary.md")
    run("ci", "gate", logs[1], "--base", logs[0], *options, code=1)
    (line,) = [each for each in (tmp_path / "summary.md").read_text("utf-8").splitlines() if "| step_time |" in each]
    change_of_time = line.split("|")[4].strip()
    assert change_of_time in (tmp_path / "page.html").read_text("utf-8")


def test_the_project_says_what_the_gate_is(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slower = change(tmp_path / "slower", "slower")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "perflog.toml").write_text('store = "store"\n[gates]\nregression = "10%"\n')
    run("ci", "gate", slower, code=0)
    run("ci", "gate", slower, "--gate", "regression:2%", code=1)
    (tmp_path / "perflog.toml").write_text('store = "store"\nbaseline = "other"\n')
    assert "there is no baseline `other`" in run("ci", "gate", slower, code=3).stdout


# --- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    ["# head", "> quote", "- list", "1. list", "<b>x</b>", "<!-- x -->", "a | b", "`x`", "*x* _y_", "[a](http://b)",
     "![a](b)", "&lt;", "\\", "~~x~~", "a\n\n# b", "---", "+ x"],
)  # fmt: skip
def test_a_text_is_shown_as_it_is(words: str) -> None:
    rendered = MarkdownIt("gfm-like", {"linkify": False}).render(f"{text(words)}\n")
    assert unescape(rendered.replace("\u200b", "")) == f"<p>{cell(words)}</p>\n"
    assert rendered.count("<") == 2  # the paragraph


def test_where_the_difference_went() -> None:
    compared = perflog.compare("base=reference:moe_layer.txt#1", "change=reference:moe_layer_early.txt")
    written = summary(comparison_outcome(compared, [Gate()]), "moe", compared)
    lines = [line.replace(" ", "") for line in written.splitlines() if line.startswith("| · ")]
    assert "|·forward|10.08ms|20.6ms|+10.5ms|" in lines
    assert "|·backward|11.1ms|1.998ms|-9.1ms|" in lines
    assert "**Do not trust**" in written


def test_nobody_is_notified_and_no_issue_is_linked() -> None:
    assert text("@all o/r#1 $x$") == "@&#8203;all o/r#&#8203;1 &#36;x&#36;"


# --- what the environment tells -----------------------------------------------------------------------------------


def event(tmp_path: Path, **content: object) -> dict[str, str]:
    (tmp_path / "event.json").write_text(json.dumps(content))
    return {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}


REPOSITORY = {"default_branch": "trunk"}


@pytest.mark.parametrize(
    ("name", "ref", "content", "request_number", "is_main"),
    [
        ("push", "refs/heads/trunk", {"repository": REPOSITORY}, "", True),
        ("push", "refs/heads/topic", {"repository": REPOSITORY}, "", False),
        ("workflow_dispatch", "refs/heads/trunk", {"repository": REPOSITORY}, "", True),
        ("schedule", "refs/heads/trunk", {}, "", True),
        ("push", "refs/heads/trunk", {}, "", False),
        ("pull_request", "refs/pull/7/merge", {"pull_request": {"number": 7}, "repository": REPOSITORY}, "7", False),
        ("pull_request_target", "refs/heads/trunk", {"pull_request": {"number": 7}, "repository": REPOSITORY}, "7",
         False),
        ("pull_request", "refs/pull/7/merge", {"pull_request": {"number": "7/../1"}}, "7", False),
        ("push", "refs/heads/refs/pull/7/merge", {}, "", False),
    ],
)  # fmt: skip
def test_which_job_of_github_this_is(
    tmp_path: Path, name: str, ref: str, content: Mapping[str, object], request_number: str, is_main: bool
) -> None:
    known = event(tmp_path, **content) | {"GITHUB_EVENT_NAME": name, "GITHUB_REF": ref}
    assert this_job(known) == Job("github", request_number, is_main)


def test_which_job_of_gitlab_this_is() -> None:
    known = {"GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main", "CI_COMMIT_BRANCH": "main", "CI_JOB_URL": "https://x/1"}
    assert this_job(known) == Job("gitlab", "", True, "", "https://x/1")
    known = {"GITLAB_CI": "true", "CI_DEFAULT_BRANCH": "main", "CI_MERGE_REQUEST_IID": "7"}
    assert this_job(known) == Job("gitlab", "7")
    assert this_job({}) == Job()
