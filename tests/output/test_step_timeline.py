"""A text log as a trace: begin, length and track of each slice."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.errors import UsageError
from perflog.metrics import Tables
from perflog.output.export.step_timeline import StepTimeline

Row = dict[str, Any]


def step(number: int, time_s: float | None, **more: Any) -> Row:
    return {"table": "steps", "step": number, "step_time_s": time_s} | more


def phase(number: int, name: str, time_s: float | None, rank: int | None = 0, occurrence: int = 1) -> Row:
    return {"table": "phases", "step": number, "phase": name, "time_s": time_s, "rank": rank, "occurrence": occurrence}


def events(*rows: Row, format: str | None = None) -> list[Row]:
    frames = by_hand("steps", rows)
    return list(StepTimeline(Tables(frames | {"runs": frames["runs"].assign(format=format)})).events())


def slices(*rows: Row, format: str | None = None) -> list[tuple[str, str, float, float]]:
    """Track, name, begin and length in ms of each slice."""
    found = events(*rows, format=format)
    processes, threads = (
        {(e["pid"], e["tid"] * (name == "thread_name")): e["args"]["name"] for e in found if e["name"] == name}
        for name in ("process_name", "thread_name")
    )
    return [
        (
            f"{processes[e['pid'], 0]}: {threads[e['pid'], e['tid']]}",
            e["name"],
            round(e["ts"] / 1e3, 6),
            round(e["dur"] / 1e3, 6),
        )
        for e in found
        if e["ph"] == "X"
    ]


def test_steps_are_laid_end_to_end() -> None:
    """A microsecond is between two steps. Of several ranks the slowest counts, of a repeated step the first."""
    found = slices(
        step(2, 0.2), step(1, 0.1, rank=0), step(1, 0.3, rank=1), step(1, None, rank=2), step(2, 0.9, copy=2),
        step(3, -1.0), step(4, 0.1),
    )  # fmt: skip
    assert found == [
        ("job: steps", "step 1", 0.0, 300.0), ("job: steps", "step 2", 300.001, 200.0),
        ("job: steps", "step 4", 500.003, 100.0),
    ]  # fmt: skip


def test_forward_and_backward_are_inside_their_step() -> None:
    assert slices(step(1, 0.3, forward_s=0.1, backward_s=0.2))[1:] == [
        ("job: steps", "forward", 0.0, 100.0), ("job: steps", "backward", 100.0, 200.0)
    ]  # fmt: skip
    assert slices(step(1, 0.3, forward_s=0.1, backward_s=0.201))[1:] == [("job: steps", "forward", 0.0, 100.0)]
    assert slices(step(1, 0.3, forward_s=-0.1, backward_s=0.2))[1:] == [("job: steps", "backward", 0.0, 200.0)]
    args = events(step(7, 0.3, loss=2.5, mfu=math.nan))[0]["args"]
    assert (args["step"], args["loss"], args.get("mfu")) == (7, 2.5, None)
    assert "run" not in args and "part" not in args and "copy" not in args


def test_counters_are_readings_at_the_begin_of_a_step() -> None:
    rows = [
        step(1, 0.1, loss=2.5, tflops=3.0, memory_bytes=None),
        step(2, 0.1, tokens_per_s=math.inf, memory_bytes=4.0),
    ]
    counters = [(e["name"], e["ts"], e["args"]) for e in events(*rows) if e["ph"] == "C"]
    assert counters == [
        ("tflops", 0.0, {"tflops": 3.0}), ("loss", 0.0, {"loss": 2.5}),
        ("memory_bytes", pytest.approx(100_001.0), {"memory_bytes": 4.0}),
    ]  # fmt: skip


def test_phases_follow_one_another_on_each_rank() -> None:
    """A step is as long as its longest rank; the next one begins after it."""
    rows = [step(1, 0.1), phase(1, "load", 0.2, 1), phase(1, "load", 0.1), phase(1, "work", 0.3), phase(2, "work", 0.1)]
    assert slices(*rows) == [
        ("job: steps", "step 1", 0.0, 100.0), ("rank 0: phases", "load", 0.0, 100.0),
        ("rank 0: phases", "work", 100.0, 300.0),
        ("rank 1: phases", "load", 0.0, 200.0), ("rank 0: phases", "work", 400.001, 100.0),
    ]  # fmt: skip
    (slice, *_) = events(phase(1, "load", 0.2, 3))
    assert (slice["pid"], slice["cat"], slice["args"]) == (13, "phase", {"line": 1, "step": 1, "rank_by": None})


def test_phases_without_a_rank_have_a_track_for_each_printing() -> None:
    rows = [phase(1, name, 0.1, None, k) for k in (1, 2) for name in ("load", "work")]
    assert slices(*rows, phase(1, "bad", -1.0), phase(1, "none", None)) == [
        (f"rank unknown: phases, printed {k}.", name, begin, 100.0)
        for k in (1, 2) for name, begin in (("load", 0.0), ("work", 100.0))
    ]  # fmt: skip


def test_parts_of_forward_and_backward_begin_with_these() -> None:
    """Backward begins after the printed forward time; a phase of the step begins with the step."""
    rows = [
        step(1, 0.5, forward_s=0.2),
        phase(1, "forward_a", 0.05),
        phase(1, "backward_a", 0.1),
        phase(1, "other", 0.1),
    ]
    found = {name: begin for track, name, begin, _ in slices(*rows) if track == "rank 0: phases"}
    assert found == {"other": 0.0, "forward_a": 100.0, "backward_a": 200.0}
    late = slices(step(1, 0.5, forward_s=0.02), phase(1, "other", 0.1), phase(1, "backward_a", 0.1))
    assert late[-1] == ("rank 0: phases", "backward_a", 100.0, 100.0)
    several = slices(step(1, 0.5), *(phase(1, f"other_{k}", 0.1) for k in range(4)))
    assert [begin for track, _, begin, _ in several if track == "rank 0: phases"] == [0.0, 100.0, 200.0, 300.0]
    second = slices(step(1, 0.5), step(2, 0.5), *(phase(2, f"other_{k}", 0.1) for k in range(2)))
    assert [begin for track, _, begin, _ in second if track == "rank 0: phases"] == pytest.approx([500, 600], abs=0.01)


def test_phases_are_inside_what_they_are_part_of() -> None:
    """Format `reference` declares both stages as parts of the schedule, and a transfer that runs beside the step."""
    rows = [phase(1, "schedule", 0.3), phase(1, "stage_forward", 0.1), phase(1, "stage_backward", 0.2)]
    rows += [phase(1, "rows_transfer", 0.4), phase(1, "data", 0.1)]
    assert slices(*rows, format="reference") == [
        ("rank 0: phases", "schedule", 0.0, 300.0), ("rank 0: phases", "stage_forward", 0.0, 100.0),
        ("rank 0: phases", "stage_backward", 100.0, 200.0),
        ("rank 0: in parallel to the step", "rows_transfer", 0.0, 400.0), ("rank 0: phases", "data", 300.0, 100.0),
    ]  # fmt: skip
    long = slices(phase(1, "schedule", 0.25), *rows[1:3], format="reference")
    assert long[2] == ("rank 0: longer than their parent", "stage_backward", 100.0, 200.0)
    alone = [(name, begin) for _, name, begin, _ in slices(*rows[1:3], format="reference")]
    assert alone == [("stage_forward", 0.0), ("stage_backward", 100.0)]  # the step has no time of the schedule
    assert events(*rows, format="reference")[0]["cat"] == "mixed"


def test_layers_are_laid_end_to_end_on_each_rank() -> None:
    usual = {"table": "layers", "step": 1, "layer": "fc", "time_s": 0.1, "direction": "forward", "stage": 2, "calls": 3}
    rows = [usual | {"rank": 1}, usual | {"rank": 0, "layer": "a"}, usual | {"rank": 0}, usual | {"rank": None}]
    assert slices(*rows) == [
        (f"rank {rank}: layers, end to end", name, begin, 100.0)
        for rank, name, begin in ((0, "a", 0.0), (0, "fc", 100.0), (1, "fc", 0.0), ("unknown", "fc", 0.0))
    ]
    (layer, *_) = events(*rows)
    assert (layer["cat"], layer["args"]) == ("forward", {"line": 2, "step": 1, "stage": 2, "calls": 3})


def test_processes_and_threads_are_named() -> None:
    """The job comes first, then what has no known rank, then the ranks."""
    found = [e for e in events(step(1, 0.1), phase(1, "a", 0.1, 2), phase(1, "a", 0.1, None)) if e["ph"] == "M"]
    assert [(e["name"], e["pid"], e["tid"], *e["args"].values()) for e in found] == [
        ("process_name", 1, 0, "job"), ("process_sort_index", 1, 0, 1), ("process_name", 2, 0, "rank unknown"),
        ("process_sort_index", 2, 0, 2), ("process_name", 12, 0, "rank 2"), ("process_sort_index", 12, 0, 12),
        ("thread_name", 1, 1, "steps"), ("thread_name", 12, 2, "phases"), ("thread_name", 2, 3, "phases, printed 1."),
    ]  # fmt: skip


def test_without_a_step_there_is_nothing_to_show() -> None:
    with pytest.raises(UsageError, match="nothing in this run belongs to a step"):
        events()
