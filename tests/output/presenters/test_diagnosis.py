"""Diagnoses on a screen: one job whole, alike ones once, quiet ones and benchmarks in a line each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perflog.analysis.culprits import Culprit
from perflog.analysis.diagnosis import Diagnosis
from perflog.analysis.job_members import UNKNOWN
from perflog.output.presenters import diagnosis as module


def culprit(rank: int | None) -> Culprit:
    return Culprit(rank, None, None, None, None, "gpu_fault", "sure", ())


def failed(name: str = "a.log", **more: Any) -> Diagnosis:
    usual = {"kind": "gpu_fault", "culprits": [culprit(3)], "certainty": "sure", "why": "it says so"}
    return Diagnosis([name], "A GPU failed, line 77", **(usual | more))


def named(answer: Diagnosis) -> list[tuple[str, str]]:
    return list(module.parts(answer))


def test_the_parts_of_a_diagnosis_are_in_order() -> None:
    answer = failed(
        evidence=["first", "second"], memory=["Memory of device 0 is full."], followed="the others waited",
        cost="an hour", last_step=12_345, earlier=["once"], speed=["slower since step 7."], settles="run it again",
    )  # fmt: skip
    assert named(answer) == [
        ("Verdict", "A GPU failed, line 77"), ("Culprit", "rank 3"), ("How sure", "sure; it says so"),
        ("Evidence", "first"), ("", "second"), ("Memory", "device 0 is full"), ("What followed", "the others waited"),
        ("What it cost", "an hour"), ("Last step", "12,345"), ("Earlier", "once"), ("Speed", "slower since step 7"),
        ("To settle it", "run it again"),
    ]  # fmt: skip


def test_what_is_not_known_has_no_part() -> None:
    """A job without a failure has no culprit to look for. Step 0 is a step."""
    assert named(Diagnosis(["a"], "it ended", reason="nothing failed", certainty="sure")) == [("Verdict", "it ended")]
    nobody = failed(culprits=[culprit(None)], reason="no rank is named", certainty="unknown")
    assert named(nobody)[1:] == [("No culprit", "no rank is named")]
    assert named(failed(culprits=[], reason="no rank is named", why=""))[1:] == [
        ("No culprit", "no rank is named"), ("How sure", "sure")
    ]  # fmt: skip
    assert named(failed(last_step=0))[-1] == ("Last step", "0")


@pytest.mark.parametrize(("number", "shown"), [(4, 4), (5, 5), (9, 5)])
def test_four_earlier_attempts_are_shown(number: int, shown: int) -> None:
    found = [text for name, text in named(failed(earlier=[f"attempt {k}" for k in range(number)])) if name == "Earlier"]
    assert len(found) == shown
    if number > 4:
        assert found[4] == ("and 1 more attempt" if number == 5 else "and 5 more attempts")


def test_long_evidence_is_cut_after_a_word() -> None:
    assert module._shown("x" * 200) == "x" * 200
    assert module._shown("x" * 201) == "x" * 200 + " …"
    assert module._shown("word " * 50) == " ".join(["word"] * 40) + " …"


def test_parts_of_a_job_have_so_many_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence and what settles a case four each, the verdict three, others two."""
    monkeypatch.setattr(module, "folded", lambda text, lines, inset: [f"{text.split(':')[0].strip()} {lines} {inset}"])
    job = failed(evidence=["one", "two"], followed="x", settles="y")
    assert [line for line in module._job(job, 2) if not line.strip().startswith("Culprit")] == [
        "A GPU failed, line 77 3 2", "How sure 2 2", "Evidence 4 2", "two 4 2", "What followed 2 2", "To settle it 4 2"
    ]  # fmt: skip


def test_jobs_that_end_alike_are_shown_once() -> None:
    """Numbers and the line do not count."""
    answers = [failed("a.log"), failed("b.log"), failed("c.log", why="another reason")]
    lines = list(module.screen(answers))
    assert lines[0] == "a.log:" and "  Culprit: rank 3" in lines
    assert "b.log: A GPU failed, line 77" in lines and "c.log:" in lines
    assert lines.index("b.log: A GPU failed, line 77") < lines.index("c.log:")
    assert sum(line.strip().startswith("Culprit") for line in lines) == 2


def test_a_single_job_needs_no_name() -> None:
    lines = list(module.screen([failed("a.log"), Diagnosis(["n.log"], "ended", benchmark="nccl-tests")]))
    assert lines[0] == "A GPU failed, line 77" and "a.log" not in "".join(lines)
    assert lines[-1] == "Not of the job: 1 benchmark that reports no failure: n.log (nccl-tests)"
    assert list(module.screen([Diagnosis(["a.log"], "it ended")])) == ["It ended"]


def test_jobs_without_a_failure_and_benchmarks_are_a_line_each() -> None:
    answers = [failed("a.log"), Diagnosis(["b.log"], "ended"), Diagnosis(["c.log"], "ended")]
    answers += [Diagnosis([f"{name}.log"], "ended", benchmark="osu") for name in "no"]
    answers += [Diagnosis([f"{name}.log"], "ended", benchmark=UNKNOWN) for name in "uv"]
    assert list(module.screen(answers))[-3:] == [
        "2 of 3 jobs report no failure: b.log, c.log",
        "Not of these jobs: 2 benchmarks that report no failure: n.log (osu), o.log (osu)",
        "Not of these jobs: values of unknown programs: u.log, v.log",
    ]
    (*_, one) = module.screen([*answers[:3], answers[-1]])
    assert one == "Not of these jobs: values of an unknown program: v.log"


def test_a_benchmark_that_failed_is_named_as_one() -> None:
    assert module.heading(failed("n.log", benchmark="nccl-tests")) == "Benchmark n.log (nccl-tests)"
    assert module.heading(failed("n.log", benchmark=UNKNOWN)) == "n.log"
    lines = list(module.screen([Diagnosis(["a.log"], "ended"), failed("n.log", benchmark="nccl-tests")]))
    assert lines[:2] == ["Ended", "Benchmark n.log (nccl-tests):"]


def test_one_diagnosis_is_an_object_and_several_are_a_list() -> None:
    one = json.loads(module.as_json([failed()]))
    assert one["verdict"] == "A GPU failed, line 77" and one["culprits"][0]["rank"] == 3
    several = json.loads(module.as_json([failed("a"), failed("b")]))
    assert [job["names"] for job in several["jobs"]] == [["a"], ["b"]]
    assert set(several) == {"schema_version", "jobs"}
    _, _, _, *rows = module.diagnosis_sheet(failed(evidence=["x", "y"])).rows
    assert list(map(tuple, rows)) == [("Evidence", "x"), ("evidence", "y")]
