"""`perflog LOG --format json`: the parts, their columns and units never change, and say what the screen says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.commands import EARLY, NVPROF, PIPELINE, SWEEP, TRAINER, run, told
from support.overviews import doubt, groups, overview
from support.pages import DOCS, same
from support.paths import SHARED

from perflog.analysis.lint import Finding
from perflog.metrics.registry import MetricColumn as Column
from perflog.output.presenters import overview_rows
from perflog.output.presenters.overview_rows import PARTS
from perflog.tables.schema import SCHEMA_VERSION

NAMES = {
    "log": "name what lines_total lines_read lines_context lines_unread",
    "outcome": "text",
    "runs": "mark name runs run log index change base settings",
    "figures": "mark figure unit better value spread levels doubted text",
    "parts": "part time_s share",
    "causes": "mark binds of subject name rank device dp_rank stage time_s share gain_s gain by ratio n each_s whole_s"
    " model metric",
    "failures": "mark log line outcome kind text ranks accused certainty why last_step texts message",
    "reasons": "reason",
    "doubts": "severity code title runs message figures mark log line action",
    "warnings": "warning",
    "next": "command",
}
"""What programs rely on. A name may be added here at the end of its part; none may go or change."""

FAILED = """\
using world size: 8, data-parallel size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1
 iteration        1/     100 | consumed samples:      512 | elapsed time per iteration (ms): 500.0 | lm loss: 3.0E+00 |
 iteration        2/     100 | consumed samples:     1024 | elapsed time per iteration (ms): 501.0 | lm loss: 2.9E+00 |
 iteration        3/     100 | consumed samples:     1536 | elapsed time per iteration (ms): 502.0 | lm loss: 2.8E+00 |
[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79.1 GiB
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("failed") / "failed.log"
    log.write_text(FAILED)
    return log


def check(answer: dict[str, Any]) -> None:
    """The answer has all parts and columns, in their order."""
    assert list(answer) == ["schema_version", *NAMES]
    assert answer["schema_version"] == SCHEMA_VERSION
    for part, names in NAMES.items():
        rows = [answer[part]] if part == "log" else answer[part]
        for row in rows:
            if part == "runs":
                assert {*names.split()} <= {*row}
            else:
                assert list(row) == names.split(), part
    marks = {row["mark"] for row in answer["runs"]}
    for part in ("figures", "causes", "doubts", "failures"):
        assert {row["mark"] for row in answer[part]} <= marks | {None}
    for row in answer["figures"]:
        (wide,) = (each for each in answer["runs"] if each["mark"] == row["mark"])
        assert wide[row["figure"]] == row["value"] and wide[f"{row['figure']} spread"] == row["spread"]


def test_names_are_those_that_programs_rely_on() -> None:
    assert {part: " ".join(c.name for c in columns) for part, (_, columns) in PARTS.items()} == NAMES


@pytest.mark.parametrize("log", [EARLY, NVPROF, PIPELINE, TRAINER], ids=lambda name: Path(name).stem)
def test_each_log_has_all_parts(log: str) -> None:
    answer = told(log, "--format", "json")
    check(answer)
    assert answer["figures"] and not answer["failures"]


def test_the_texts_of_figures_are_on_the_screen() -> None:
    answer, screen = told(EARLY, "--format", "json"), " ".join(run(EARLY).stdout.split())
    assert all(row["text"] in screen for row in answer["figures"])
    assert all(row["reason"] in screen for row in answer["reasons"])


def test_a_failure_is_a_row(failed: Path) -> None:
    answer = told(failed, "--format", "json")
    check(answer)
    (row,) = answer["failures"]
    assert (row["mark"], row["log"], row["line"], row["outcome"]) == ("#1", str(failed), 5, "ended")
    assert (row["kind"], row["ranks"], row["last_step"]) == ("gpu_out_of_memory", [5], 3)
    assert row["message"].startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert row["text"] in answer["outcome"][0]["text"] and answer["next"][0] == {
        "command": f"perflog diagnose {failed}"
    }
    (early,) = (row for row in answer["doubts"] if row["code"] == "run-stopped")
    assert (early["log"], early["line"]) == (str(failed), 4)


def test_the_causes_of_each_run() -> None:
    """Those of several runs are the rows of metric `causes`."""
    answer, metric = told(SWEEP, "--format", "json"), told("analyze", SWEEP, "causes", "--format", "json")["causes"]
    check(answer)
    marks = {row["run"]: row["mark"] for row in answer["runs"]}
    assert len(marks) > 1
    expected = [{"mark": marks[row.pop("run")], **row} for row in metric if row.pop("label", True)]
    assert answer["causes"] == expected


def test_other_formats_have_the_same_parts(failed: Path) -> None:
    rows = [line.split(",") for line in run(failed, "--format", "csv").stdout.splitlines()]
    assert ["figures", "1", "figure", "step"] in rows and ["failures", "1", "line", "5"] in rows
    assert "| failures" not in run(failed, "--format", "md").stdout


@pytest.mark.skipif(not (SHARED / "campaigns" / "jobs").is_dir(), reason="needs the made jobs in ../shared/campaigns")
def test_a_job_of_two_attempts() -> None:
    answer = told(SHARED / "campaigns" / "jobs" / "restart.log", "--format", "json")
    check(answer)
    (row,) = answer["failures"]
    assert (row["outcome"], row["kind"], row["ranks"]) == ("restarted", "collective_timeout", [3])
    slow = next(row for row in answer["figures"] if row["mark"] == "#2" and row["figure"] == "step")
    assert slow["levels"] == pytest.approx([5.395, 8.404], abs=1e-3) and slow["doubted"]


DIAGNOSIS = (
    "names verdict kind culprits reason certainty why evidence followed settles last_step earlier cost speed loss "
    "benchmark memory"
)
COMPARISON = {
    "": "schema_version sides verdict other_work other_settings causes cases by result best rule rows geomeans settings"
    " varied attribution operators summaries warmups speed_changes findings left_out failed cut_short copies one_sided"
    " warnings gates answer",
    "rows": "case kind metric statistic unit better derived base side base_value base_low base_high side_value side_low"
    " side_high change change_low change_high error freedom scope history_runs history_scatter sessions session_scatter"
    " paired few_values p p_rank p_both p_holm shift cliffs_delta drift base_runs side_runs base_steps side_steps"
    " verdict reason advice fails",
    "causes": "case side of subject name rank device dp_rank stage base_s side_s base_whole_s side_whole_s base_gain_s"
    " side_gain_s base_binds side_binds only_on difference_s",
    "attribution": "case base side kind part of depth base_s side_s difference_s share",
    "findings": "code severity case side run message action first_line evidence",
}
TRACK = "by answer tests left_out figures_left_out"


def test_names_of_the_other_answers(failed: Path) -> None:
    """What programs rely on in the answers of diagnose, compare and track."""
    assert " ".join(told("diagnose", failed, "--format", "json")) == f"schema_version {DIAGNOSIS}"
    compared = told("compare", f"{SWEEP}#1", f"{SWEEP}#2", "--format", "json")
    assert " ".join(compared) == COMPARISON[""]
    screen = " ".join(run("compare", f"{SWEEP}#1", f"{SWEEP}#2").stdout.split())
    assert compared["answer"] and all(text.partition(": ")[2] in screen for text in compared["answer"][:1])
    for part, names in COMPARISON.items():
        if part:
            assert " ".join(compared[part][0]) == names, part
    assert " ".join(told("track", EARLY, "--format", "json")) == f"schema_version {TRACK}"


def table(columns: Iterable[Column]) -> str:
    rows = (f"| `{c.name}` | {c.unit} | {c.meaning} |" for c in columns)
    return "\n".join(["| column | unit | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def test_the_page_of_answers() -> None:
    """docs/answers.md is what the code says; what stands before the parts of the overview is written by hand."""
    page = DOCS / "answers.md"
    head = page.read_text("utf-8").partition("## Parts of the overview\n")[0]
    parts = (
        f"### {part}\n\n{meaning[0].upper()}{meaning[1:]}.\n\n{table(columns)}"
        for part, (meaning, columns) in PARTS.items()
    )
    same(page, "\n".join([f"{head}## Parts of the overview\n", *parts]))


def run_rows(**fields: Any) -> list[list[Any]]:
    return [list(row) for row in overview_rows._runs(overview(**fields)).rows]


def test_rows_have_the_mark_of_their_base() -> None:
    """And the settings in which they differ."""
    keys = {f"r{n}": SimpleNamespace(id=f"r{n}", log="a.log", index=n) for n in range(2)}
    settings = [{"batch": "8"}, {"batch": "16"}]
    rows = run_rows(groups=groups(2, settings), keys=keys, base={1: 0})
    assert rows == [
        ["#1", "log #1", 1, "8", 1.0, None, None, None, "r0", "a.log", 0, settings[0]],
        ["#2", "log #2", 1, "16", 2.0, None, 1.0, "#1", "r1", "a.log", 1, settings[1]],
    ]
    assert run_rows(groups=[]) == []


def test_a_doubt_or_failure_of_a_log_without_a_name() -> None:
    row = SimpleNamespace(kind="exception", message="m" * 2000)
    judged = SimpleNamespace(first=(), kind="", certainty="sure", why="so")
    culprits = [SimpleNamespace(rank=3, name="rank 3"), SimpleNamespace(rank=None, name="")]
    ending: Any = SimpleNamespace(
        judged=judged, rows=[row], run="r0", restarts=False, goes_on=False, culprits=culprits, line=7, last_step=9,
        sentence="It failed.",
    )  # fmt: skip
    (found,) = overview_rows._failures(overview(failures=[ending]), {"r0": "#1"})
    assert found[:-1] == ["#1", None, 7, "ended", "exception", "It failed.", [3], ["rank 3"], "sure", "so", 9, 1]
    made: Any = doubt("slow")
    made.code, made.findings = "x", [Finding("r0", "slow", {})]
    assert overview_rows._doubt(overview(), made, {})[6:9] == [None, None, None]
