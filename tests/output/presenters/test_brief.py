"""Brief texts of an overview and of a diagnosis: what each line says, and which are left out first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.overviews import STEP, doubt, groups, overview, part

from perflog.analysis.culprits import Culprit
from perflog.analysis.diagnosis import Diagnosis
from perflog.analysis.lint import Finding
from perflog.analysis.overview.run_figures import RunFigure
from perflog.output.presenters import brief as module

LOSS = RunFigure("loss", "", "lower", {"r0": 2.5, "r1": 2.25})


def lines(**fields: Any) -> list[tuple[str, int]]:
    return [(line.text, line.weight) for line in module._overview(overview(**fields))]


def texts(start: str, **fields: Any) -> list[str]:
    return [text for text, _ in lines(**fields) if text.startswith(start)]


def found(title: str, severity: str = "warning", *findings: Finding, **more: Any) -> Any:
    """A doubt with its findings, as an overview has it."""
    made = doubt(title, severity, **more)
    made.code, made.findings = title, findings or (Finding("r0", f"{title} in line 7", {"r0": [9, 7]}),)
    return made


KEYS = {f"r{n}": SimpleNamespace(log=f"/logs/run{n}.txt") for n in range(3)}


def test_an_overview_without_doubts() -> None:
    assert lines() == [
        ("run.txt: moe, 1 run; all lines read", module._HEAD), ("step 1 s", module._FACT),
        ("Doubt: none, the checks found nothing", module._DOUBT),
    ]  # fmt: skip
    assert lines(names=["/a/b/", "c", "d"])[0][0] == "b and 2 more: moe, 1 run; all lines read"
    assert lines(names=["/"])[0][0].startswith("/: ")


def test_parts_of_the_time() -> None:
    """Five of them, if they have a share."""
    assert texts("Time", parts=[part("a", 0.5), part("b", 0.0), part("c", 0.25, 1.0)]) == [
        "Time: a 50 % (500 ms), c 25 % (1 s)"
    ]  # fmt: skip
    assert texts("Time", parts=[part(name, 0.1) for name in "abcdef"])[0].count("%") == 5
    assert texts("Time", parts=[part("b", 0.0)]) == []


def test_the_first_reasons_are_cut_last() -> None:
    reasons = [f"reason {n}" for n in range(4)]
    weights = [weight for text, weight in lines(reasons=reasons) if text in reasons]
    assert weights == [module._FACT, module._DOUBT, module._DOUBT, module._LATER]


def test_warnings_and_commands() -> None:
    fields: dict[str, Any] = {"warnings": [f"torn {n}" for n in range(4)], "next": ["perflog a", "perflog b"]}
    assert texts("Warning", **fields) == ["Warning: torn 0", "Warning: torn 1", "Warning: torn 2"]
    assert texts("Doubt", **fields) == []
    assert lines(**fields)[-2:] == [("Next: perflog a", module._FAILURE), ("Next: perflog b", module._LAST)]
    whole = [line.text for line in module._overview(overview(**fields)) if line.whole]
    assert whole == ["Next: perflog a", "Next: perflog b"]  # a part of a command is none


def test_doubts_have_the_first_line_that_proves_them() -> None:
    doubts = [found(name) for name in "abcd"] + [found("few", "note")]
    shown = [line for line in lines(doubts=doubts, keys=KEYS) if line[0].startswith(("Doubt", "Note"))]
    weights = (module._REASON, module._DOUBT, module._DOUBT, module._LATER)
    expected = [(f"Doubt: run0.txt:7: {name} in line 7", weight) for name, weight in zip("abcd", weights, strict=True)]
    assert shown == [*expected, ("Note: run0.txt:7: few in line 7", module._LAST)]
    assert texts("Doubt", doubts=[found("a")]) == ["Doubt: a in line 7"]  # the log has no name
    proofless = found("a", "warning", Finding("r0", "", {}))
    assert texts("Doubt", doubts=[proofless], keys=KEYS) == ["Doubt: a in line 7"]


def test_of_several_rows_a_doubt_names_its_own_once() -> None:
    fields: dict[str, Any] = {"groups": groups(2), "keys": KEYS}
    assert texts("Doubt", doubts=[found("a")], **fields) == ["Doubt: #1 run0.txt:7: a"]
    assert texts("Doubt", doubts=[found("a", runs=("r0", "r1"))], **fields) == ["Doubt: #1 run0.txt:7: a (all runs)"]
    assert texts("Doubt", doubts=[found("a")], groups=groups(2)) == ["Doubt: #1: a"]


def test_what_ended_runs_comes_first() -> None:
    """Of each row the first finding of a rule, without its line at the end, which is at the start."""
    alike = [Finding("r0", message, {"r0": [line]}) for message, line in (("it broke, line 1,234", 1234), ("more", 9))]
    other = Finding("r1", "it broke too", {"r1": [5]})
    ended = found("ended", "error", *alike, other, Finding("r1", "perhaps", {}, severity="note"), is_outcome=True)
    fields: dict[str, Any] = {"groups": groups(2), "keys": KEYS, "doubts": [ended]}
    assert texts("!", **fields) == [
        "! #1 run0.txt:1234: it broke (1 more like it)", "! #2 run1.txt:5: it broke too"
    ]  # fmt: skip
    many = [found(f"rule {n}", "error", is_outcome=True) for n in range(4)]
    weights = [weight for text, weight in lines(doubts=many) if text.startswith("!")]
    assert weights == [module._FAILURE] * 3 + [module._LATER]
    assert texts("Doubt", doubts=many) == ["Doubt: none, the checks found nothing"]


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ({}, ["step 1 s"]),
        ({"groups": groups(1, runs=2)}, ["mean of 2 runs, step ± sd 1.5 s ± 47.1 %"]),
        (
            {"groups": groups(2), "base": {1: 0}, "figures": [STEP, LOSS]},
            ["#1: step 1 s, loss 2.5", "#2: step 2 s, +100 % vs #1, loss 2.25"],
        ),
        ({"groups": groups(2, names=["fast", "b #2"])}, ["#1 fast: step 1 s", "#2: step 2 s"]),
        (
            {"groups": groups(2, [{"lr": "1", "bs": "-"}, {"lr": "2", "bs": "8"}], runs=2, names=["a", "b"])},
            ["#1 a x 2 (lr 1): step 1.5 s ± 47.1 %", "#2 b x 2 (lr 2, bs 8): step 3.5 s ± 20.2 %"],
        ),
        ({"groups": groups(2), "figures": [LOSS, RunFigure("mfu", "1", "higher", {"r0": 0.5})]},
         ["#1: loss 2.5, mfu 50 %", "#2: loss 2.25"]),
        ({"groups": groups(2), "figures": [RunFigure("mfu", "1", "higher", {"r0": 0.5})]},
         ["#1: mfu 50 %", "#2: no metric"]),
    ],
)  # fmt: skip
def test_rows(fields: dict[str, Any], rows: list[str]) -> None:
    assert [line.text for line in module._rows(overview(**fields))] == [
        row.replace("step ± sd", "step") for row in rows
    ]


def test_of_many_rows_base_best_and_worst_are_cut_last() -> None:
    values = {f"r{n}": value for n, value in enumerate([5.0, 3.0, 9.0, 4.0])}
    rows = list(module._rows(overview(groups=groups(4), figures=[RunFigure("step", "s", "lower", values)])))
    assert [line.weight for line in rows] == [module._FACT, module._FACT, module._FACT, module._LATER]
    many = list(module._rows(overview(groups=groups(14))))
    assert [many[-1].text, many[-2].text, len(many)] == ["and 2 more rows", "#14: step 14 s", 13]


def test_metrics_that_are_doubted_are_marked() -> None:
    doubts = [found("a", runs=("r1",)), found("b", "note", runs=("r0",))]
    for each in doubts:
        each.figures = ("step",)
    rows = [line.text for line in module._rows(overview(groups=groups(2), doubts=doubts))]
    assert rows == ["#1: step 1 s", "#2: step ! 2 s"]


def failed(name: str = "a.log", **more: Any) -> Diagnosis:
    culprit = Culprit(3, None, None, None, None, "gpu_fault", "sure", ())
    usual = {"kind": "gpu_fault", "culprits": [culprit], "certainty": "sure", "why": "it says so"}
    return Diagnosis([name], "A GPU failed", **(usual | more))


def test_a_diagnosis_of_one_job() -> None:
    assert module.diagnosis_brief([failed(evidence=["first", "second"])]) == [
        "A GPU failed", "Culprit: rank 3", "How sure: sure; it says so", "Evidence: first", "Evidence: second"
    ]  # fmt: skip
    weights = [line.weight for line in module._job(failed(evidence=["first", "second"]))]
    assert weights == [module._HEAD, module._HEAD, module._FAILURE, module._FACT, module._LAST]


def test_a_diagnosis_of_several_jobs() -> None:
    quiet = Diagnosis(["b.log"], "it ended", certainty="sure")
    told = module.diagnosis_brief([failed(), quiet, failed("c.log", culprits=[])])
    assert told[0] == "2 of 3 jobs failed"
    assert [text.partition(": ")[2] for text in told[1:]] == ["A GPU failed; rank 3: sure", "A GPU failed"]
