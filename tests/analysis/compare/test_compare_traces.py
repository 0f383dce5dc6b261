"""Comparison of two traces: by step, by state of the devices, by kernel."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from support.field_logs import needs_corpus
from support.trace_tables import Event, by_hand, kernel, log, real, reduce, step

import perflog
from perflog.analysis.compare import Comparison, VerdictRule
from perflog.analysis.compare.comparing import compare_sides
from perflog.analysis.compare.sides import Side
from perflog.cli.main import main
from perflog.log import combined
from perflog.output.presenters import compare as presenter
from perflog.output.report import collect, to_html, to_markdown
from perflog.output.sheets import text

GEMM, COPY = "ampere_sgemm_128x64_tn", "Memcpy HtoD (Pinned -> Device)"


def trace(computing: int, moving: int = 200, steps: int = 8, ranks: int = 1, annotated: bool = True) -> list[Event]:
    """Steps of 1000 us: computing, then communication of which 50 us are hidden, and 20 us of copies."""
    events = []
    for r in range(ranks):
        who = {"rank": r, "part": r, "device": r}
        for s in range(steps):
            at = 1_000_000 * s
            if annotated:
                events.append(step(s, at, at + 1_000_000) | who | {"device": None})
            events.append(kernel(at, at + computing * 1000, GEMM) | who)
            begin = at + (computing - 50) * 1000
            events.append(reduce(begin, begin + moving * 1000) | who)
            events.append(kernel(at + 900_000, at + 920_000, COPY, kind="memcpy") | who)
    return events


def compare(base: list[Event], side: list[Event]) -> Comparison:
    return perflog.compare(log(by_hand(base), "base"), log(by_hand(side), "side"), draws=200)


def values(compared: Comparison, kind: str) -> dict[str, tuple[float, float]]:
    rows = [row for row in compared.row_records if row.kind == kind]
    return {row.metric: (row.base_value, row.side_value) for row in rows}


@pytest.mark.parametrize("ranks", [1, 2])
def test_states_of_a_step(ranks: int) -> None:
    compared = compare(trace(300, ranks=ranks), trace(400, 250, ranks=ranks))
    assert values(compared, "step") == {"step_time": pytest.approx((1e-3, 1e-3))}
    assert values(compared, "device") == {
        "compute": pytest.approx((300e-6, 400e-6)), "exposed_communication": pytest.approx((150e-6, 200e-6)),
        "exposed_memory": pytest.approx((20e-6, 20e-6)), "idle": pytest.approx((530e-6, 380e-6)),
        "busy": pytest.approx((0.47, 0.62)), "overlap": pytest.approx((0.25, 0.2)),
    }  # fmt: skip
    better = {row.metric: (row.better, row.derived) for row in compared.row_records if row.kind == "device"}
    assert better["overlap"] == ("higher", False) and better["busy"] == ("higher", True)
    assert better["idle"] == ("lower", False)


def test_kernels_by_name_in_a_step() -> None:
    """By the step whose launch is known, else by the step in which a kernel begins."""
    times = values(compare(trace(300), trace(400)), "kernel")
    assert times["all"] == pytest.approx((520e-6, 620e-6)) and times[GEMM] == pytest.approx((300e-6, 400e-6))
    late = [e | {"step": 0 if e["start_ns"] < 4_000_000 else 1} if e["kind"] == "kernel" else e for e in trace(300)]
    launched = values(compare(late, trace(300)), "kernel")
    assert launched[GEMM] == pytest.approx((0, 300e-6))  # most steps launched none


def test_a_longer_step_goes_to_its_states() -> None:
    longer = [e | {"duration_ns": e["duration_ns"] * (2 if e["name"] == GEMM else 1)} for e in trace(300)]
    longer = [e | {"start_ns": e["start_ns"] * 2, "duration_ns": e["duration_ns"] * 2} for e in longer]
    compared = compare(trace(300), longer)
    parts = {row.part: row for row in compared.attribution_records if row.kind == "step"}
    assert parts["step_time"].difference_s == pytest.approx(1e-3)
    states = ("compute", "exposed_communication", "exposed_memory", "idle")
    assert sum(parts[name].share or 0 for name in states) == pytest.approx(1)
    assert parts["(unexplained)"].difference_s == pytest.approx(0, abs=1e-12)


def test_a_step_without_communication_has_no_overlap() -> None:
    quiet = [e for e in trace(300) if "nccl" not in e["name"] or e["start_ns"] < 7_000_000]
    compared = compare(quiet, trace(300))
    (overlap,) = (row for row in compared.row_records if row.metric == "overlap")
    assert (overlap.base_steps, overlap.side_steps) == (7, 8)
    assert (overlap.base_value, overlap.side_value) == pytest.approx((0.25, 0.25))


def test_traces_without_steps_are_compared_whole() -> None:
    compared = compare(trace(300, annotated=False), trace(600, annotated=False, steps=8))
    assert "step_time" not in values(compared, "step")
    assert values(compared, "device")["compute"] == pytest.approx((8 * 300e-6, 8 * 600e-6))
    assert values(compared, "kernel")["all"] == pytest.approx((8 * 520e-6, 8 * 820e-6))
    assert [row.metric for row in compared.headlines] == ["all"]


def test_more_steps_are_no_more_time() -> None:
    compared = compare(trace(300, steps=4), trace(300, steps=12))
    for kind in ("step", "device", "kernel"):
        for base, side in values(compared, kind).values():
            assert base == pytest.approx(side)


def test_the_text_names_states_and_keeps_lines_short() -> None:
    long = [e | {"name": f"void {'very' * 100}_long_gemm(int)"} if e["name"] == GEMM else e for e in trace(300)]
    slow = [e | {"duration_ns": e["duration_ns"] * (2 if "long" in e["name"] else 1)} for e in long]
    lines = [line.text for line in text(list(presenter.comparison(compare(long, slow), "text")))]
    assert any(line.startswith("  exposed_communication") for line in lines)
    assert any("…" in line and line.rstrip().endswith("%") for line in lines)
    assert max(map(len, lines)) < 170


def test_traces_are_repeats_whatever_their_recording() -> None:
    """Three traces a side: their files, ids and time origins are no settings."""

    def side(name: str, computing: int) -> list[perflog.Log]:
        settings = [
            {"files": [k], "trace_id": f"{name}{k}", "baseTimeNanoseconds": k, "record_shapes": 1} for k in range(3)
        ]
        return [log(by_hand(trace(computing + k), **of_run), f"{name}{k}") for k, of_run in enumerate(settings)]

    sides = tuple(Side(name, combined(side(name, computing))) for name, computing in (("base", 300), ("side", 500)))
    compared = compare_sides(sides, VerdictRule(draws=200))
    assert not len(compared.settings) and compared.row_records[0].base_runs == 3
    compute = next(row for row in compared.row_records if row.metric == "compute")
    assert compute.verdict == "regression" and compute.base_value == pytest.approx(301e-6, rel=1e-5)


@needs_corpus
def test_ranks_of_the_real_trace() -> None:
    compared = perflog.compare(log(real(0), "one"), log(real(1), "two"))
    assert values(compared, "step")["step_time"] == pytest.approx((0.61512, 0.6192715), rel=1e-6)
    assert values(compared, "kernel")["Memcpy HtoD (Pinned -> Device)"] == pytest.approx((406e-6, 6041e-6), rel=1e-3)
    assert "overlap" in values(compared, "device")


@pytest.fixture(scope="module")
def subject() -> Any:
    tables = by_hand(trace(300, ranks=2))
    return collect(log(tables, "one"))


def test_a_report_has_the_metrics_of_a_trace(subject: Any) -> None:
    assert {"steps", "device_time", "device_kernels", "collective_wait", "stragglers"} <= {
        m.name for m in subject.metrics
    }
    assert "device_time" in {plot.metric for plot in subject.plots}
    written = to_html(subject)
    assert "exposed communication" in written and "device time" in written
    assert "device time" in to_markdown(subject)


def test_the_command_prints_the_metrics_of_a_trace(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.opening.find_runs", lambda *_: log(by_hand(trace(300, ranks=2)), "one"))
    done = CliRunner().invoke(main, ["analyze", "one", "--full"])
    assert done.exit_code == 0, done.output
    for title in (
        "device time of one",
        "kernels of traces of one",
        "waiting in collectives of one",
        "stragglers of one",
    ):
        assert title in done.output
