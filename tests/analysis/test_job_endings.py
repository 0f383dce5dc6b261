"""How the attempts of a job end: failures cut where steps follow, who is accused, and what says so in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.metrics_logs import by_hand

import perflog
from perflog.analysis.culprits import Culprit
from perflog.analysis.job_endings import Ending, _Steps, endings, is_ended, joined
from perflog.metrics.attempts import Attempt
from perflog.metrics.run_tables import Tables

TableRow = dict[str, Any]


def steps(*numbers: int, begin: int = 2, run: str = "a-1", **more: Any) -> list[TableRow]:
    """Step lines from a line on."""
    return [{"table": "steps", "line": begin + k, "step": n, "step_time_s": 1.0, "run": run, **more}
            for k, n in enumerate(numbers)]  # fmt: skip


def failure(line: int, kind: str = "gpu_out_of_memory", rank: int | None = None, **more: Any) -> TableRow:
    usual = {"table": "failures", "line": line, "last_line": line, "kind": kind, "severity": "fatal", "count": 1}
    return usual | {"role": "first", "message": f"{kind} it is", "run": "a-1", "rank": rank, **more}


def caught(line: int, message: str = "ValueError: no", **more: Any) -> TableRow:
    """An exception of an unknown process."""
    return failure(line, "exception", **{"message": message, **more})


def said(line: int, text: str, count: int = 1) -> TableRow:
    return {"table": "lines", "line": line, "first_line": line, "sample": text, "shape": text, "count": count,
            "status": "unread", "run": "a-1"}  # fmt: skip


def tables_of(rows: Sequence[TableRow], runs: Sequence[str] = ("a-1",)) -> Tables:
    frames = by_hand("steps", [*({"table": "runs", "run": run, "config": "{}"} for run in runs), *rows])
    return Tables(frames | {"runs": frames["runs"][1:]})


def ended(*rows: TableRow, runs: Sequence[str] = ("a-1",)) -> list[Ending]:
    return endings(tables_of(rows, runs))


Shown = tuple[list[int], bool, bool, int | None]
"""The lines of the failures of an ending, whether steps follow, whether in a new attempt, and the last step before."""


def shown(*rows: TableRow, runs: Sequence[str] = ("a-1",)) -> list[Shown]:
    return [
        ([row.line for row in each.rows], each.goes_on, each.restarts, each.last_step)
        for each in ended(*rows, runs=runs)
    ]


BEFORE = steps(1, 2, 3)  # on lines 2 to 4


def test_a_failure_that_no_step_follows_ended_the_job() -> None:
    assert shown(*BEFORE, failure(9)) == [([9], False, False, 3)]
    assert shown(failure(9)) == [([9], False, False, None)]
    assert shown(*BEFORE, failure(4)) == [([4], False, False, 3)]  # behind a progress bar on its line
    assert shown(*BEFORE, failure(9, rank=1), failure(12, rank=2)) == [([9, 12], False, False, 3)]
    assert shown(*BEFORE, failure(9, severity="notice")) == [] == shown(*BEFORE)
    assert shown(*BEFORE, failure(9), *steps(4, begin=10, rank=1)) == [([9], False, False, 3)]  # of another rank


def test_what_proves_an_ending() -> None:
    """An exception of an unknown process may have been caught; a test of a GPU names the GPU that failed."""
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, False), ({"rank": 1}, True), ({"gpu": 2}, True), ({"severity": "fatal"}, True),
    ]  # fmt: skip
    for more, proven in cases:
        row = failure(9, "gpu_fault", **{"severity": "error", **more})
        assert [ending.is_proven for ending in ended(row)] == [proven]


def test_steps_after_a_failure() -> None:
    """A later step: the program goes on. An earlier one: it is started again."""
    assert shown(*BEFORE, failure(9), *steps(4, 5, 6, begin=10)) == [([9], True, False, 3)]
    assert shown(*BEFORE, failure(9), *steps(2, 3, 4, 5, begin=10)) == [([9], True, True, 3)]
    assert shown(*BEFORE, failure(9), *steps(1, 2, begin=10)) == [([9], True, True, 3)]
    assert shown(*BEFORE, failure(9), *steps(3, 4, 5, begin=10)) == [([9], True, True, 3)]  # again the one before it
    ranks = [row for rank in (0, 1) for row in steps(1, 2, 3 - rank, begin=2 + 3 * rank, rank=rank)]
    assert shown(*ranks, failure(9), *steps(3, 4, 5, begin=10)) == [([9], True, False, 3)]  # of the other rank
    assert shown(*BEFORE, failure(9), *steps(2, begin=10)) == [([9], False, False, 3)]  # one: a bar that closes
    other = steps(1, begin=10, run="a-2")
    assert shown(*BEFORE, failure(9), *other, runs=("a-1", "a-2")) == [([9], True, True, 3)]
    tens = steps(10, 20, 30)
    assert shown(*tens, failure(9), *steps(40, begin=10)) == [([9], False, False, 30)]  # the step that was being made
    assert shown(*tens, failure(9), *steps(40, 50, begin=10)) == [([9], True, False, 30)]


def test_attempts_are_counted() -> None:
    rows = [*BEFORE, failure(9), *steps(2, 3, 4, 5, begin=10), failure(20, rank=3)]
    first, second = ended(*rows)
    assert ((first.number, first.of), (second.number, second.of)) == ((1, 2), (2, 2))
    assert (first.restarts, second.restarts, second.last_step) == (True, False, 5)
    assert is_ended(tables_of(rows), "a-1") and not is_ended(tables_of(rows), "b-1")
    assert not is_ended(tables_of([*BEFORE, failure(9), *steps(4, 5, 6, begin=10)]), "a-1")


def test_attempts_in_several_logs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {run: Attempt("a-1", number, 2, None, None, "") for number, run in enumerate(("a-1", "b-1"), 1)}
    monkeypatch.setattr("perflog.analysis.job_endings.attempts", lambda _: known)
    rows = [*BEFORE, failure(9), *steps(3, 4, run="b-1"), failure(8, run="b-1")]
    first, last = ended(*rows, runs=("a-1", "b-1"))
    assert (first.number, first.of, first.restarts, first.goes_on) == (1, 2, True, True)
    assert (last.number, last.of, last.restarts, last.goes_on) == (2, 2, False, False)


def test_logs_have_endings_of_their_own() -> None:
    rows = [*BEFORE, failure(9), failure(5, run="b-1"), *steps(7, 8, 9, begin=20, run="b-1")]
    assert shown(*rows, runs=("a-1", "b-1")) == [([9], False, False, 3), ([5], True, False, None)]


@pytest.mark.parametrize(
    ("at", "last", "goes_on"),
    [
        (5, 200, True),  # seconds: of the failure, and of the last step of the job
        (5, 50, False),  # the clocks of the logs may differ by a minute
        (200, 200, False),
        (-100, 200, False),  # before the job began
    ],
)
def test_a_failure_in_a_log_beside_a_job_that_goes_on(at: int, last: int, goes_on: bool) -> None:
    def seconds(time: int) -> int:
        return time * 10**9

    made = [row | {"printed_ns": seconds(last * k // 9), "clock": "local"} for k, row in enumerate(steps(*range(10)))]
    rows = [*made, failure(2, run="dmesg-1", kind="gpu_fault", time_ns=seconds(at), clock="local")]
    (found,) = ended(*rows, runs=("a-1", "dmesg-1"))
    assert (found.goes_on, found.restarts) == (goes_on, False)
    (unknown,) = ended(*made, failure(2, run="dmesg-1", kind="gpu_fault", time_ns=seconds(at)), runs=("a-1", "dmesg-1"))
    assert not unknown.goes_on  # on which clock it is


def test_exceptions_that_a_program_caught() -> None:
    goes_on = steps(4, 5, begin=10)
    assert shown(*BEFORE, caught(9), *goes_on) == [([9], True, False, 3)]
    assert shown(*BEFORE, caught(9), *goes_on, failure(20)) == [([9], True, False, 3), ([20], False, False, 5)]
    assert shown(*BEFORE, caught(9), *goes_on, caught(20)) == [([9], True, False, 3), ([20], True, False, 5)]  # alike
    other = caught(20, "KeyError: 1")
    assert shown(*BEFORE, caught(9), *goes_on, other)[1] == ([20], False, False, 5)
    assert shown(*BEFORE, caught(9), *goes_on, caught(20, rank=3))[1] == ([20], False, False, 5)
    of_start = [caught(9, section=1), *goes_on, caught(20, section=2)]
    assert shown(*BEFORE, *of_start)[1] == ([20], False, False, 5)  # by another start of the program


@pytest.mark.parametrize(
    ("rows", "lines", "goes_on"),
    [
        ([caught(9)], 509, False),
        ([caught(9)], 510, True),  # so much is printed only by a program that goes on
        ([caught(9, rank=1)], 900, False),  # ranks that wait for it may print as much
        ([failure(9)], 510, True),
        ([failure(9, rank=1)], 510, False),
        ([failure(9, "preemption", message="*** JOB 7 CANCELLED")], 510, True),  # a new job prints it
        ([caught(9, severity="error")], 18, False),
        ([caught(9, severity="error")], 19, True),  # it logs what it caught
        ([caught(9, severity="error", message="python: can't open file 'x'")], 19, False),
        ([failure(9, "arguments", severity="error")], 19, False),
    ],
)
def test_a_program_that_prints_on(rows: list[TableRow], lines: int, goes_on: bool) -> None:
    (found,) = ended(*BEFORE, *rows, said(1, "x", lines))
    assert found.goes_on == goes_on


@pytest.mark.parametrize(
    ("lines", "row", "goes_on"),
    [
        ((3, 12, 20), failure(9), True),  # the next cases of a benchmark
        ((3, 12), failure(9), False),  # another rank may print its result of the same case
        ((12, 20), failure(9), False),  # what is printed after the end
        ((3, 12, 20), failure(9, rank=1), False),
        ((3, 12, 20), failure(9, "child_failed"), False),
    ],
)
def test_results_of_a_program_without_steps_after_it_was_out_of_memory(
    lines: tuple[int, ...], row: TableRow, goes_on: bool
) -> None:
    results = [{"table": "values", "line": line, "key": "latency", "value": 1.0, "run": "a-1"} for line in lines]
    assert ended(*results, row)[0].goes_on == goes_on
    assert not ended(*({**result, "rank": 0} for result in results), row)[0].goes_on


@pytest.mark.parametrize(
    ("text", "is_end"),
    [
        ("Training completed. Do not forget to share your model", True),
        ("INFO training is complete", True),
        ("[after training is done] datetime: 2026-01-01", True),
        ("{'train_runtime': 12.3}", True),
        ("`Trainer.fit` stopped: `max_steps=10` reached.", True),
        ("the training has not finished", False),
        ("training failed and is finished", False),
        ("after training is done", False),
        ("epoch finished", False),
    ],
)
def test_a_training_that_ended_well(text: str, is_end: bool) -> None:
    """The program had tried again, or was started again."""
    (retried,) = ended(*BEFORE, caught(9), said(20, text))
    assert retried.goes_on == is_end
    (early,) = ended(*BEFORE, caught(30), said(20, text))
    assert not early.goes_on
    (of_rank,) = ended(*BEFORE, failure(9, rank=2), said(20, text))
    assert not of_rank.goes_on


def test_the_sentence_of_an_ending() -> None:
    (one,) = ended(*BEFORE, failure(1009, rank=5, gpu=3))
    assert one.sentence.endswith(" on rank 5 (GPU 3), line 1,009")
    (exception,) = ended(*BEFORE, caught(9, "ValueError: bad\nmore"))
    assert exception.sentence == "ValueError: bad, line 9"
    long = "ValueError: " + "x" * 100
    assert ended(*BEFORE, caught(9, long))[0].sentence == f"{long[:100]}..., line 9"
    rust = ended(*BEFORE, caught(9, "thread 'main' panicked at src/a.rs:3:5:\nit is full\nmore"))
    assert rust[0].sentence == "thread 'main' panicked at src/a.rs:3:5: it is full, line 9"
    (code,) = ended(*BEFORE, failure(9, "task_exit", task=3, node="n1", exit_code=7))
    assert code.sentence.endswith(" (exit code 7), line 9")
    assert not one.is_wait and one.is_proven
    assert not ended(*BEFORE, caught(9, severity="error"))[0].is_proven
    assert ended(*BEFORE, caught(9, severity="error", rank=1))[0].is_proven


def test_who_is_accused_has_what_other_lines_show_of_it() -> None:
    rows = [failure(9, rank=5), failure(12, "task_exit", rank=5, task=5, node="n2", exit_code=1)]
    (found,) = ended(*BEFORE, *rows)
    (culprit,) = found.culprits
    assert (culprit.rank, culprit.node, culprit.kind) == (5, "n2", "gpu_out_of_memory")
    assert culprit.evidence == ("line 9: gpu_out_of_memory it is",)
    (labelled,) = ended(*BEFORE, failure(9, rank=5, rank_by="label", message="a\nb"))
    assert labelled.culprits[0].evidence == ("line 9: [rank 5] a | b",)
    (plain,) = ended(*BEFORE, caught(9, rank=5, gpu=3))
    assert plain.culprits[0].gpu is None  # a device that the message names is not what failed
    assert ended(*BEFORE, caught(9))[0].culprits == []


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({"rank": 5}, "rank 5"),
        ({"rank": 5, "task": 5, "node": "n3", "gpu": 1}, "rank 5 (n3, GPU 1)"),
        ({"rank": 5, "task": 6, "local_rank": 1}, "rank 5 (task 6)"),
        ({"local_rank": 1, "node": "n3"}, "local rank 1 (n3)"),
        ({"task": 2, "device": "cuda:0"}, "task 2 (device cuda:0)"),
        ({"link": "n1 - n2"}, "link n1 - n2"),
        ({"rank": 1, "expert": 2, "stage": 3}, "rank 1 (expert 2, stage 3)"),
        ({}, ""),
    ],
)
def test_names_of_the_accused(known: dict[str, Any], name: str) -> None:
    usual: dict[str, Any] = dict.fromkeys(("rank", "task", "node", "gpu", "device"))
    culprit = Culprit(**(usual | {"kind": "killed", "certainty": "sure", "evidence": ()} | known))
    assert culprit.name == name
    assert culprit.as_json() == {"kind": "killed", "certainty": "sure", "evidence": ()} | known


def test_several_logs_of_one_job() -> None:
    logs = [tables_of([*BEFORE, failure(9, "lost_process", rank=1, role="echo")]),
            tables_of([*steps(1, 2, 3, 4), failure(9, rank=2)])]  # fmt: skip
    final = [ending for tables in logs for ending in endings(tables)]
    together = joined(final)
    assert (together.judged.kind, together.judged.ranks, together.last_step) == ("gpu_out_of_memory", [2], 4)
    assert joined(final[:1]) is final[0]


@pytest.mark.parametrize(
    ("node", "local", "ends"),
    [("n1", True, [[9], [12]]), ("n1", False, [[9, 12]]), (None, True, [[9, 12]])],
)
def test_a_launcher_that_sums_up_its_node_again_started_again(
    node: str | None, local: bool, ends: list[list[int]]
) -> None:
    """It is known by its node and the first rank there: without either, two summaries may be of two launchers."""
    message = f"rank 3{' (local_rank: 3)' if local else ''}, exitcode: 1"
    summaries = [failure(line, "first_failed", 3, node=node, message=message) for line in (9, 12)]
    assert [[row.line for row in each.rows] for each in ended(*BEFORE, *summaries)] == ends


OOM, LOST = "torch.OutOfMemoryError: CUDA out of memory.", "torch.distributed.DistBackendError: NCCL error in: x.cpp:1"


@pytest.mark.parametrize(
    ("spans", "last_step", "of"),
    [
        ([(1, 20), (12, 40)], 39, 2),
        ([(1, 20), (20, 40)], 39, 1),  # it goes on with the next step
        ([(1, 1), (1, 40)], 39, 1),  # the first attempt has no step
        ([(1, 20), (12, 40), (40, 60)], 59, 2),
    ],
)
def test_the_last_failure_of_files_of_ranks(
    tmp_path: Path, spans: list[tuple[int, int]], last_step: int, of: int
) -> None:
    """Rank 2 fails first, rank 1 last. Steps follow the first failures in the file of each rank."""
    for rank in range(3):
        lines = list[str]()
        for number, span in enumerate(spans, 1):
            lines += [f"step {n}/90 | loss {3 - n / 90:.4f} | step_time 0.51s" for n in range(*span)]
            culprit = 1 if number == len(spans) else 2
            lines += ["Traceback (most recent call last):", '  File "t.py", line 1, in <module>', "    main()"]
            lines += [OOM if rank == culprit else LOST]
        (tmp_path / f"rank_{rank}.log").write_text("\n".join([*lines, ""]))
    log = perflog.read(tmp_path)
    last = next(each for each in endings(Tables(log)) if not each.goes_on)
    assert ([each.rank for each in last.culprits], last.last_step, last.of) == ([1], last_step, of)
    (outcome,) = perflog.overview(log).outcome
    assert outcome.startswith("Ended by CUDA out of memory on rank 1, rank_1.log:")


@pytest.mark.parametrize(
    ("after", "goes_on"),
    [((4,), True), ((3,), False), ((2,), False), ((3, 4), True), ((2, 3), True), ((), False)],
)
def test_steps_go_on_after_a_failure(after: tuple[int, ...], goes_on: bool) -> None:
    """The last one may be printed again; several are of a new attempt, or of steps that go on."""
    found = _Steps(tables_of([*BEFORE, *steps(*after, begin=9)]), ["a-1"])
    row: Any = SimpleNamespace(line=6)
    assert found.goes_on(row) == goes_on
    assert [found._stride(begin) for begin in (1, 2, 3)] == [0, 1, 1]
    before: Any = SimpleNamespace(line=1)
    assert found.goes_on(before)


def test_the_steps_of_a_process_follow_its_failures() -> None:
    """By the name of its file if that is known, else by its rank."""
    rows = [*steps(1, 2, rank=0, source="a.log"), *steps(1, 2, 3, begin=10, rank=1, source="b.log")]
    found = _Steps(tables_of(rows), ["a-1"], by_rank=True)
    places: list[tuple[Any, list[int]]] = [
        (SimpleNamespace(node="b.log", rank=0), [10, 11, 12]), (SimpleNamespace(node=None, rank=0), [2, 3]),
        (SimpleNamespace(node=None, rank=None), [2, 3, 10, 11, 12]),
    ]  # fmt: skip
    assert [found.beside(row).lines for row, _ in places] == [lines for _, lines in places]
