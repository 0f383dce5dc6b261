"""Sentences on steps, runs, jobs and servers: when each is a reason, and what it says."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.metric_tables import replace_table
from support.metrics_logs import by_hand

import perflog
from perflog.analysis.overview import overview
from perflog.analysis.overview.facts import log_facts as module
from perflog.metrics import Options, Tables
from perflog.metrics.causes.cause import Cause
from perflog.metrics.settings_by_run import MFU_PEAK_OF
from perflog.metrics.step_time.breakdown import UNTIMED

NAN = math.nan
STEPS = [{"step": 10 * n, "step_time_s": 1.0} for n in range(1, 25)]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    return partial(replace_table, monkeypatch, module)


@pytest.fixture
def causes(monkeypatch: pytest.MonkeyPatch) -> Any:
    def replaced(*found: Any) -> None:
        monkeypatch.setattr(module, "causes_by_run", lambda *_: {"r": list(found)})

    return replaced


def said(sentences: Any, *rows: dict[str, Any], config: str = "{}", world: int | None = None) -> list[str]:
    """What a function says of a log with these rows, each with the name of its table."""
    frames = by_hand("steps", rows, world)
    frames["runs"] = frames["runs"].assign(config=config)
    options = () if sentences is module.process_summaries else (Options(),)
    return list(sentences(Tables(frames), "r", *options))


def part(share: float, kind: str = "wait", of: str = "step", name: str = "p") -> dict[str, Any]:
    return {"share": share, "kind": kind, "of": of, "part": name}


# --- the step -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([part(0.03)], None),
        ([part(0.04)], "Waiting and communication that delay the step: 4 %."),
        ([part(0.02), part(0.02, "communication", "phases")], "Waiting and communication that delay the step: 4 %."),
        ([part(0.5, "compute")], None),
        ([part(0.5, of="phase")], None),
    ],
)
def test_waits_that_delay_the_step(table: Any, rows: list[dict[str, Any]], text: str | None) -> None:
    table("breakdown", *rows, **part(0.9))
    assert said(module.held_up) == ([text] if text else [])


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ((0.21, 0.1), None),  # of a phase and of the step
        ((0.2, 0.05, 0.05), None),
        ((0.2, 0.06, 0.05), "31 % of the step is untimed, most of it in p0 (20 %)."),
    ],
)
def test_time_in_no_timer(table: Any, shares: tuple[float, ...], text: str | None) -> None:
    table("breakdown", *(part(share, UNTIMED, name=f"p{n}") for n, share in enumerate(shares)), **part(0.9))
    assert said(module.held_up) == ([text] if text else [])


def test_phases_that_are_longer_than_the_step(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table("breakdown", **part(0.9))
    fits = {"run": "r", "whole": "step", "parts": ("a", "b"), "parts_s": 1.5, "whole_s": 1.0}
    found = [SimpleNamespace(**fits | more) for more in ({}, {"run": "other"}, {"whole": "forward", "parts_s": 9.0})]
    monkeypatch.setattr(module, "misfits", lambda *_: found)
    (text,) = said(module.held_up)
    assert text.startswith("2 timed phases add up to 150 % of the step: ")
    found[0].parts = ("a",)
    assert said(module.held_up)[0].startswith("1 timed phase adds up to 150 % of the step: ")


def cause(subject: str, **more: Any) -> Any:
    usual = dict.fromkeys(Cause.__struct_fields__) | {"subject": subject, "may_bind": True}
    return SimpleNamespace(**(usual | more))


def test_time_between_steps(causes: Any) -> None:
    outside = cause("outside of steps", share=0.5, time_s=30.123)
    validation = cause("validation", name="validation", n=4, each_s=2.5, share=0.1)
    causes(validation, cause("checkpoint", name="checkpoint", n=1, each_s=1.0, share=0.03), outside)
    assert said(module.between_steps) == [
        "Validation takes 10 % of the run's time: 4 x 2.5 s.", "30.1 s of the total, 50 %, are outside of the steps.",
    ]  # fmt: skip
    outside.share = 0.03
    causes(outside)
    assert said(module.between_steps) == []


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ({}, "Largest kernel: gemm, 3 calls x 2 s, 40 %."),
        ({"n": 0}, "Largest kernel: gemm, 40 %."),
        ({"n": 1}, "Largest kernel: gemm, 1 call x 2 s, 40 %."),
        ({"of": "api"}, "Largest call: gemm, 3 calls x 2 s, 40 %."),
        ({"metric": "other"}, None),
    ],
)
def test_the_largest_kernel_of_a_profile(causes: Any, of: dict[str, Any], text: str | None) -> None:
    usual = {"metric": module.KERNELS, "name": "gemm", "n": 3, "each_s": 2.0, "share": 0.4, "of": "gpu"}
    kernel = cause("kernel", **(usual | {"may_bind": False} | of))
    causes(cause("category", metric=module.KERNELS), kernel)
    assert said(module.profile) == ([text] if text else [])
    for category in ({"may_bind": False}, {"metric": "other"}):
        causes(cause("category", **({"metric": module.KERNELS} | category)), kernel)
        assert said(module.profile) == []
    causes(cause("kernel", **(usual | of)))  # it is the headline itself
    assert said(module.profile) == []


# --- what the log lacks -------------------------------------------------------------------------------------------


def value(key: str, number: float, step: int | None = 1, unit: str | None = "s", **more: Any) -> dict[str, Any]:
    return {"table": "values", "key": key, "value": number, "step": step, "unit": unit} | more


NOT_TIMED = "Why it takes this long is not in the log: it times nothing inside a step."


@pytest.mark.parametrize(
    ("rates", "rows", "texts"),
    [
        ({"mfu": 0.4, "printed_mfu": 0.5}, [], "The model uses 40 % of the device's peak (MFU)"),
        ({"mfu": NAN, "printed_mfu": 0.5}, [], "The model uses 50 % of the device's peak (MFU)"),
        ({"mfu": NAN, "printed_mfu": NAN}, STEPS, NOT_TIMED),
        ({"mfu": NAN, "printed_mfu": NAN, "part": "all"}, STEPS[:1], NOT_TIMED),
        ({"mfu": NAN, "printed_mfu": NAN, "part": "all"}, [STEPS[0] | {"memory_bytes": 9.0}], NOT_TIMED),
        ({"mfu": NAN, "printed_mfu": NAN, "part": "all"}, [{"step": n, "memory_bytes": 9.0} for n in range(3)], None),
        ({"mfu": NAN, "printed_mfu": NAN, "part": "all"}, [{"step": n, "loss": 9.0} for n in range(3)], NOT_TIMED),
        ({"mfu": NAN, "printed_mfu": NAN, "part": "all"}, [], None),
        ({"mfu": 0.4, "printed_mfu": NAN, "part": "all"}, STEPS, NOT_TIMED),
        ({"mfu": NAN, "printed_mfu": NAN}, [*STEPS, {"table": "phases", "phase": "a", "time_s": 1.0}], None),
        ({"mfu": NAN, "printed_mfu": NAN}, [{"table": "summaries", "key": "step_time", "unit": "s"}], NOT_TIMED),
        ({"mfu": NAN, "printed_mfu": NAN}, [{"table": "summaries", "key": "accuracy", "unit": "1"}], None),
    ],
)
def test_what_the_log_lacks(table: Any, rates: dict[str, Any], rows: list[dict[str, Any]], texts: str | None) -> None:
    table("throughput", {"part": "steady"} | rates, part="steady", mfu=0.9)
    rest = "; the log does not show what takes the rest."
    wanted = [] if texts is None else [texts + rest if "MFU" in texts else texts]
    assert said(module.unknown_causes, *rows) == wanted


@pytest.mark.parametrize(("lines", "times"), [(2, []), (3, [("a", 1.5)])])
def test_phases_of_most_lines_of_steps(lines: int, times: list[tuple[str, float]]) -> None:
    phases = [{"table": "phases", "phase": "a", "time_s": 1.5} for _ in range(lines)]
    tables = Tables(by_hand("steps", [*({"step_time_s": 1.0} for _ in range(5)), *phases]))
    assert list(module._times_of_phases(tables, "r")) == times
    assert list(module._times_of_phases(Tables(by_hand("steps", phases)), "r")) == []


def test_times_that_steps_print_by_name(table: Any) -> None:
    """In half of the steps or more; no rate, no time of the step or of the run."""
    table("throughput", {"part": "steady", "mfu": 0.4, "printed_mfu": NAN})
    steps = [{"step": n, "step_time_s": 1.0} for n in range(4)]
    often = [value("load", time, n) for n, time in enumerate((1.0, 2.3456, 9.0))]
    no_times = [
        value(key, 5.0, n)
        for key in ("seconds_per_step", "step_time", "elapsed", "eta_s", "time_left")
        for n in range(4)
    ]
    others = [value("x", 5.0, n, unit) for n in range(4) for unit in ("1", None)]
    rows = [*steps, *often, value("rare", 5.0, 0), value("rare", 5.0, 1), *no_times, *others]
    assert said(module.unknown_causes, *rows) == [
        "The model uses 40 % of the device's peak (MFU).", "Times that each step prints by name, medians: load 2.35 s.",
    ]  # fmt: skip
    averaged = [{"step": 10 * n, "step_time_s": 1.0, "steps_averaged": 10} for n in range(4)]
    load = [value("load", 2.0, 10 * n) for n in range(4)]
    assert said(module.unknown_causes, *averaged, *load)[1].startswith("Times that each line prints by name")
    parts = [{"step": n, "forward_s": 3.0, "backward_s": 1.5 if n < 2 else None} for n in range(4)]
    assert said(module.unknown_causes, *parts, *often)[1].endswith(" medians: forward 3 s, load 2.35 s.")
    again = [value("forward_time", 3.0, n) for n in range(4)]
    assert said(module.unknown_causes, *parts, *again)[1].endswith(" medians: forward_time 3 s.")
    phase = {"table": "phases", "phase": "a", "time_s": 1.0}
    assert said(module.unknown_causes, *parts, *often, phase)[1].endswith(" medians: forward 3 s, load 2.35 s.")
    unnumbered = [{"step": None, "step_time_s": 1.0, "line": n} for n in range(3)]
    on_their_lines = [value("load", 2.0, None, line=n) for n in range(3)]
    elsewhere = [value("eval", 5.0, None, line=n + 10) for n in range(3)]
    assert said(module.unknown_causes, *unnumbered, *on_their_lines, *elsewhere)[1].endswith(" medians: load 2 s.")
    phases = [{"table": "phases", "phase": "data", "time_s": 3.0, "step": None, "line": n} for n in range(3)]
    assert said(module.unknown_causes, *unnumbered, *phases)[1].endswith(" medians: data 3 s.")


def test_times_without_a_unit_are_shown_as_printed(table: Any) -> None:
    table("throughput", {"part": "steady", "mfu": NAN, "printed_mfu": NAN})
    steps = [{"step": n, "loss": 2.0} for n in range(3)]
    times = [value(key, 3.01234 / k, n, None) for k, key in enumerate(("step_time", "fwd_time"), 1) for n in range(3)]
    others = [value(key, 9.0, n, None) for key in ("elapsed_time", "entropy") for n in range(3)]
    once = [value("eval_time", 7.0, 0, None)]
    assert said(module.unknown_causes, *steps, *times, *others, *once) == [
        "The log prints times without their unit, medians: step_time 3.012, fwd_time 1.506."
    ]
    timed = [{"step": n, "step_time_s": 1.0} for n in range(3)]
    assert said(module.unknown_causes, *timed, *times)[0].startswith("Why it takes this long is not in the log")


def test_the_peak_of_another_device(table: Any) -> None:
    table("throughput", {"part": "steady", "mfu": 0.4, "printed_mfu": NAN})
    (text,) = said(module.unknown_causes, config=f'{{"{MFU_PEAK_OF}": "A100"}}')
    assert text == "The MFU, 40 %, is of the peak of A100, another device; the log does not show what takes the rest."


# --- collectives and loads ----------------------------------------------------------------------------------------

PEAK = {
    "op": "all_reduce", "n": 2, "peak_busbw": 100.0, "peak_algbw": 60.0, "largest": 2.0**33, "smallest": 8.0,
    "peak_at": 2.0**30, "saturated_at": 2.0**20, "wrong": NAN, "smallest_s": 1e-5, "largest_s": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("of", "texts"),
    [
        ({}, ["all_reduce: peak 100 GB/s at 1 GiB; smaller messages than 1 MiB reach less than 90 % of it."]),
        ({"saturated_at": NAN}, ["all_reduce: peak 100 GB/s at 1 GiB."]),
        ({"saturated_at": 2.0**33}, ["all_reduce: peak 100 GB/s at 1 GiB; it still rises at the largest message."]),
        ({"saturated_at": 8.0}, ["all_reduce: peak 100 GB/s at 1 GiB; all sizes reach at least 90 % of it."]),
        ({"largest": NAN, "saturated_at": NAN}, ["all_reduce: peak 100 GB/s."]),
        ({"peak_busbw": NAN, "saturated_at": NAN}, ["all_reduce: peak 60 GB/s at 1 GiB."]),
        ({"wrong": 0, "saturated_at": NAN}, ["all_reduce: peak 100 GB/s at 1 GiB."]),
        ({"wrong": 1, "saturated_at": NAN}, ["all_reduce: peak 100 GB/s at 1 GiB.", "all_reduce: 1 wrong result."]),
        ({"wrong": 3, "saturated_at": NAN}, ["all_reduce: peak 100 GB/s at 1 GiB.", "all_reduce: 3 wrong results."]),
        ({"op": None, "saturated_at": NAN}, ["Collective without a name: peak 100 GB/s at 1 GiB."]),
        (
            {"peak_busbw": NAN, "peak_algbw": NAN},
            ["all_reduce: latency 10 us at 8 B, 1 s at 8 GiB."],
        ),
        ({"peak_busbw": NAN, "peak_algbw": NAN, "largest": 8.0}, ["all_reduce: latency 10 us at 8 B."]),
        ({"peak_busbw": NAN, "peak_algbw": NAN, "smallest_s": NAN}, []),
    ],
)
def test_the_peak_of_a_collective(table: Any, of: dict[str, Any], texts: list[str]) -> None:
    table("collectives", PEAK | {"n": 1, "peak_busbw": 50.0, "op": of.get("op", "all_reduce")}, PEAK | of, **PEAK)
    assert said(module.collective) == texts


def test_the_most_loaded_member(table: Any) -> None:
    row = {"of": "load", "mean": 2.0, "max": 3.0, "members": 8, "over": "expert"}
    worst, none = {"max": 1.0, "mean": 0.5, "members": 4}, {"mean": 0.0}
    table("imbalance", row, row | worst, row | {"of": "time", "max": 9.0}, row | none)
    assert said(module.loads) == ["Loads: the largest of 4 experts does 2.00 times the mean."]
    table("imbalance", row | {"mean": 0.0}, **row)
    assert said(module.loads) == []


def test_the_stage_with_the_largest_value() -> None:
    """The last value of each counts; one stage alone is not the largest, and values of steps are of no stage."""
    last = ((0, 9), (1, 3), (2, 5), (0, 2))
    rows = [value("memory", number * 2.0**30, None, "B", stage=stage) for stage, number in last]
    assert said(module.places, *rows) == ["memory: stage 2 has the largest, 5 GiB; the next 3 GiB."]
    assert said(module.places, *rows[:1], rows[3]) == []
    assert said(module.places, *(row | {"step": 3} for row in rows)) == []
    replicas = [value("n", number, None, None, dp_rank=rank) for rank, number in ((0, 1.0), (1, 2.0))]
    assert said(module.places, *replicas) == ["n: data-parallel rank 1 has the largest, 2; the next 1."]


def test_the_states_of_jobs() -> None:
    states = [{"table": "values", "key": "job_state", "text": text} for text in ("FAILED", "OUT", "A", "B", "FAILED")]
    text = "Job state in the scheduler's accounting: DONE, FAILED, OUT, A."
    assert said(module.job_states, *states, config='{"job_state": "DONE"}') == [text]
    assert said(module.job_states, *states[:1]) == ["Job state in the scheduler's accounting: FAILED."]
    assert said(module.job_states, *states, *STEPS) == said(module.job_states) == []


# --- summaries --------------------------------------------------------------------------------------------------


def summary(key: str, *numbers: float, unit: str | None = "s") -> list[dict[str, Any]]:
    return [{"table": "summaries", "key": key, "value": number, "unit": unit} for number in numbers]


def test_summaries_that_each_process_prints() -> None:
    """A time comes first; values of equal number are named with it. Values before the last step do not count."""
    rows = [*summary("early", 1.0, 2.0), {"step": 1}, *summary("rate", 5.0, 7.0, unit="1")]
    rows += [*summary("number", 8.0, 8.0, unit=None), *summary("same", 4.0, 4.0)]
    rows += [*summary("time", 100.25, 100.5), *summary("three", 1.0, 2.0, 3.0), *summary("once", 1.0)]
    text = "time is printed 2 times after the last step: 100.25 s to 100.5 s; mean rate 6, number 8, same 4 s."
    assert said(module.process_summaries, *rows) == [text]
    text = text.replace("2 times", "by each of the 2 ranks")
    assert said(module.process_summaries, *rows, world=2) == [text]
    assert said(module.process_summaries, *summary("same", 4.0, 4.0), *summary("once", 1.0)) == []
    five = [row for n in range(5) for row in summary(f"s{n}", 1.0, 1.0)]
    (found,) = said(module.process_summaries, *summary("time", 1.0, 2.0), *five)
    assert found == "time is printed 2 times: 1 s to 2 s; mean s0 1 s, s1 1 s, s2 1 s, s3 1 s."


def test_a_profile_of_the_cpu_alone(tmp_path: Path) -> None:
    """No row represents the others: the screen has the total below the table, and what takes most of it."""
    rule = "  ".join("-" * width for width in (12, 12, 12, 12, 12, 12, 12))
    cells = [
        ("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"),
        ("aten::mm", "69.00%", "69.000ms", "70.00%", "70.000ms", "35.000ms", "2"),
        ("aten::sum", "31.00%", "31.000ms", "31.00%", "31.000ms", "31.000ms", "1"),
    ]
    head, *rows = ("  ".join(cell.rjust(12) for cell in row) for row in cells)
    path = tmp_path / "profile.txt"
    path.write_text("\n".join([rule, head, rule, *rows, rule, "Self CPU time total: 100.000ms", ""]))
    seen = overview(perflog.read(path))
    assert [figure.name for figure in seen.figures] == ["self_cpu_time_total"]
    assert list(seen.reasons) == ["Largest in the profile: aten::mm 69 % (2 calls), aten::sum 31 % (1 call)."]
