"""Waterfall: bars that add up to the step or the trace.

`test_waterfall_numbers.py` and `test_trace_numbers.py` in `tests/output` recompute bars of real logs from raw files.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import trace_tables
from support.examples import examples
from support.metrics_logs import by_hand, rows, runs, tables, two_waiting_ranks
from support.trace_tables import kernel, reduce

import perflog
from perflog.metrics import Options, Tables, breakdown, stages, steps, waterfall
from perflog.metrics.semantics import RunSemantics
from perflog.metrics.settings_by_run import MFU_PEAK_OF
from perflog.metrics.step_time import waterfall as module
from perflog.metrics.step_time.breakdown import misfits
from perflog.metrics.step_time.waterfall import _times_of_work

MOE = "moe_layer"


def _bars(table: Any, run: str | None = None) -> dict[str, float]:
    return {row["bar"]: row["time_s"] for row in rows(table) if run in (None, row["run"])}


def _phase(phase: str, step: int, time_s: float, rank: int | None = None, **more: Any) -> dict[str, Any]:
    usual = {"table": "phases", "step": step, "phase": phase, "occurrence": 1, "rank": rank, "time_s": time_s}
    return usual | more


def _steps(count: int, time_s: float = 1.0) -> list[dict[str, Any]]:
    return [{"table": "steps", "step": step, "step_time_s": time_s} for step in range(count)]


def _of(form: str, values: list[dict[str, Any]], world: int | None = None, **config: Any) -> dict[str, Any]:
    """Tables of a run of a known format, whose file says what its phases are."""
    made = by_hand("steps", values, world)
    return {**made, "runs": made["runs"].assign(format=form, config=json.dumps(config))}


def test_steps_timed_by_a_bar_have_the_phases_that_their_lines_print(tmp_path: Path) -> None:
    """The bar has a time for each tenth step only: of the others it shows whole seconds."""
    lines = [
        f" {step}%|#  | {step}/100 [00:{2 * step:02d}<03:00,  2.{step % 3}0s/it]"
        f"[2025-01-01 10:00:{2 * step:02d},000] [INFO] "
        "[logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward: 300.00 | backward: 700.00 | step: 600.00\n"
        for step in range(1, 26)
    ]
    (tmp_path / "run.log").write_text("".join(lines))
    log = perflog.read(tmp_path / "run.log")
    bars = {row["part"]: row["time_s"] for row in rows(breakdown(log))}
    assert bars == pytest.approx({"backward": 0.7, "optimizer": 0.6, "forward": 0.3, "step": 0.4})
    assert _bars(waterfall(log)) == pytest.approx({"mixed": 1.6, "unattributed": 0.4})


# --- the five logs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peak", [None, 312.0])
@pytest.mark.parametrize("name", ["moe_layer", "moe_layer_early", "training_sweep", "pipeline_layers"])
def test_bars_add_up_to_the_mean_step(name: str, peak: float | None) -> None:
    """With the warm-up they are the mean of all steps, without it the mean of the steady ones."""
    table = waterfall(tables(name), peak_tflops=peak)
    times = steps(tables(name)).query("of == 'step_time'").set_index(["run", "part"])["mean_s"]
    assert set(table["run"]) == set(runs(name))
    for run, bars in table.groupby("run"):
        steady = bars[bars["bar"] != "warm-up"]["time_s"].sum()
        assert steady == pytest.approx(times[run, "steady"], rel=1e-12)
        assert bars["time_s"].sum() == pytest.approx(times[run, "all"], rel=1e-12) == bars["whole_s"].iloc[0]
        assert bars["share"].sum() == pytest.approx(1, rel=1e-12)
        assert bars["of_steady"].sum() == pytest.approx(1, rel=1e-12)


def test_the_work_at_the_peak_by_the_formula_of_the_benchmark() -> None:
    """FACTS: 0.824633720832 TFLOP a step and rank; at 312 TFLOP/s that is 2.643 ms of the 21.4 ms step."""
    bars = waterfall(tables(MOE), peak_tflops=312)
    for row in rows(bars, bar="work at the peak"):
        assert row["time_s"] == pytest.approx(0.824633720832 / 312, rel=1e-9)
    (first,) = rows(bars, bar="work at the peak", run=runs(MOE)[0])
    assert first["doubt"] == "counts 16,384 rows, ranks do 14,592 to 19,968"


def test_stages_of_the_pipeline_by_the_formulas_of_the_schedule() -> None:
    """004: 8 stages, 32 micro-batches. Mean stage 96.6 ms, ramp 7/32 of it, the rest of 237 ms are unequal stages."""
    per_batch = stages(tables("pipeline_layers"))["per_micro_batch_s"].astype(float)
    bars = _bars(waterfall(tables("pipeline_layers")))
    assert bars["compute"] == pytest.approx(32 * per_batch.mean(), rel=1e-9) == pytest.approx(0.0966, abs=1e-4)
    assert bars["pipeline ramp"] == pytest.approx(7 * per_batch.mean(), rel=1e-9)
    makespan = per_batch.sum() + 31 * per_batch.max()
    assert sum(bars[bar] for bar in ("compute", "unequal stages", "pipeline ramp")) == pytest.approx(makespan, rel=1e-9)
    doubts = {row["doubt"] for row in rows(waterfall(tables("pipeline_layers"))) if row["rows"] == "layers"}
    assert doubts == {"modelled from the forward of the layers alone"}


def test_forward_and_backward_alone_are_not_told_apart() -> None:
    """001: forward and backward fill the step, and nothing says what they hold."""
    bars = rows(waterfall(tables("moe_layer_early")))
    assert [(row["bar"], row["rows"]) for row in bars] == [
        ("mixed", "forward, backward"), ("unattributed", "step"), ("warm-up", "steps"),
    ]  # fmt: skip


def test_a_profile_has_no_bars() -> None:
    """Its table has no clock that would tell idle time or waiting."""
    assert not len(waterfall(tables("nvprof")))


# --- traces -------------------------------------------------------------------------------------------------------


def test_exposed_communication_before_and_after_the_last_rank_has_come() -> None:
    """Rank 0 comes at 100, rank 1 at 130 to 180, all leave 40 later. Rank 1 computes beside the last collective."""
    events = []
    for k in range(8):
        at, late = 1000 * k, 30 + 10 * (k % 6)
        events += [kernel(at, at + 100), reduce(at + 100, at + 140 + late)]
        events += [kernel(at, at + 100, rank=1, part=1), reduce(at + 100 + late, at + 140 + late, rank=1, part=1)]
    events.append(kernel(7000, 7900, rank=1, part=1, stream=8))
    bars = _bars(waterfall(trace_tables.by_hand(events)))
    waits = sum(30 + 10 * (k % 6) for k in range(8))
    assert bars["waiting for the last"] == pytest.approx(waits / 2 * 1e-9)
    assert bars["transfer"] == pytest.approx((8 * 40 + 7 * 40) / 2 * 1e-9)
    assert "communication" not in bars


def test_idle_time_whose_launch_is_not_known_is_not_divided() -> None:
    call = {"kind": "runtime", "rank": 0, "name": "cudaLaunchKernel", "duration_ns": 5}
    events = [
        kernel(0, 100, correlation=1), kernel(300, 400, correlation=2), kernel(900, 1000, correlation=3),
        {**call, "start_ns": 0, "correlation": 1}, {**call, "start_ns": 250, "correlation": 2},
    ]  # fmt: skip
    bars = _bars(waterfall(trace_tables.by_hand(events)))
    expected = {"compute": 300, "host-bound idle": 150, "idle with work queued": 50, "idle": 500}
    assert {bar: round(time * 1e9) for bar, time in bars.items()} == expected


# --- bars made by hand --------------------------------------------------------------------------------------------


def test_communication_of_all_ranks_is_transfer_and_waiting() -> None:
    """Three ranks take 0.1, 0.2 and 0.6 s: 0.1 s of the mean 0.3 s are the transfer."""
    values = [_phase("exchange", step, (0.1, 0.2, 0.6)[rank], rank) for step in range(8) for rank in range(3)]
    values += [_phase("forward", step, 0.5, rank) for step in range(8) for rank in range(3)]
    bars = _bars(waterfall(_of("reference", [*_steps(8), *values], 3)))
    expected = {"transfer": 0.1, "waiting for the last": 0.2, "unattributed": 0.7}
    assert bars == pytest.approx(expected)


def test_communication_of_one_value_is_not_divided() -> None:
    values = [_phase(name, step, 0.3) for step in range(8) for name in ("exchange", "forward")]
    bars = _bars(waterfall(_of("reference", [*_steps(8), *values])))
    assert bars == pytest.approx({"communication": 0.3, "unattributed": 0.7})


def test_communication_with_fastest_and_slowest_rank() -> None:
    values = [_phase("all_grads_sync", step, 0.4, min_s=0.1) for step in range(8)]
    bars = _bars(waterfall(_of("megatron", [*_steps(8), *values])))
    assert bars == pytest.approx({"transfer": 0.1, "waiting for the last": 0.3, "unattributed": 0.6})


def test_a_phase_that_comes_twice_on_a_rank_under_one_parent() -> None:
    """Ranks take 0.1 and 0.3 s, then 0.3 and 0.1 s: they wait 0.1 s each time, though their sums are equal."""
    values = [
        _phase("gemm1", step, (0.1, 0.3)[(rank + k) % 2], rank, occurrence=k)
        for step in range(8)
        for k in (1, 2)
        for rank in range(2)
    ]
    forward = [_phase("forward", step, 0.9, rank) for step in range(8) for rank in range(2)]
    bars = waterfall(_of("reference", [*_steps(8), *values, *forward], 2))
    assert _bars(bars) == pytest.approx({"compute": 0.4, "unequal ranks": 0.2, "unattributed": 0.4})


def test_ranks_that_wait_in_phases_do_not_wait_outside_of_them() -> None:
    """Rank 0 waits 0.2 s in its optimizer for rank 1, which loads data for longer. Both are untimed for 0.1 s."""
    each = [(step, rank) for step in range(8) for rank in range(2)]
    steps = [{"table": "steps", "step": step, "rank": rank, "step_time_s": 1.0} for step, rank in each]
    data = [_phase("data", step, (0.5, 0.7)[rank], rank) for step, rank in each]
    optimizer = [_phase("optimizer", step, (0.4, 0.2)[rank], rank) for step, rank in each]
    bars = waterfall(_of("reference", [*steps, *data, *optimizer], 2))
    assert _bars(bars) == pytest.approx({"compute": 0.3, "data": 0.6, "unattributed": 0.1})


def test_ranks_further_apart_than_is_untimed_are_doubted() -> None:
    values = [_phase("gemm1", step, (0.1, 1.7)[rank], rank) for step in range(8) for rank in range(2)]
    forward = [_phase("forward", step, 1.0, rank) for step in range(8) for rank in range(2)]
    (row,) = rows(waterfall(_of("reference", [*_steps(8), *values, *forward], 2)), bar="unequal ranks")
    assert row["time_s"] == pytest.approx(0.1)  # all that is untimed; slowest - mean is 0.8 s
    assert row["doubt"].endswith("; the spread of the ranks is more than the untimed time")


def test_data_and_preparation_have_bars_of_their_own() -> None:
    values = [_phase(name, step, time_s) for step in range(8) for name, time_s in (("data", 0.2), ("optimizer", 0.3))]
    bars = _bars(waterfall(_of("reference", [*_steps(8), *values])))
    assert bars == pytest.approx({"compute": 0.3, "data": 0.2, "unattributed": 0.5})


def test_work_at_the_rate_of_plain_products_and_the_kernels_that_are_slower() -> None:
    """4 x 1000 rows x top 2 x 64 x 128 x 2 layers are 0.131072 GFLOP. Two ranks measure 0.5 and 2 GFLOP/s: 0.8."""
    shapes = {"tokens_per_rank": 1000, "top_k": 2, "model_dim": 64, "hidden_size": 128, "layers": 2}
    plain = {"plain_experts": 2, "plain_rows": 1000}
    values = [
        {"table": "values", "key": f"plain_gemm{k}", "rank": rank, "value": seconds / 2}
        for rank, seconds in ((0, 0.131072), (1, 0.032768))
        for k in (1, 2)
    ]
    gemms = [_phase(f"gemm{k}", step, 0.1 * k, rank) for step in range(8) for rank in (0, 1) for k in (1, 2)]
    made = _of("reference", [*_steps(8), *gemms, *values], 2, **shapes, **plain)
    found = {row["bar"]: row for row in rows(waterfall(made))}
    work = 0.131072 / 0.8
    assert found["work at plain products"]["time_s"] == pytest.approx(work)
    assert found["work at plain products"]["doubt"] is None
    assert found["slower kernels"]["time_s"] == pytest.approx(0.3 - work)
    assert found["unattributed"]["time_s"] == pytest.approx(0.7)
    assert (found["slower kernels"]["first_line"], found["slower kernels"]["last_line"]) == (9, 40)


def test_a_log_without_parts_and_work_has_no_bars_whatever_the_peak() -> None:
    assert not len(waterfall(by_hand("steps", _steps(8))))
    assert not len(waterfall(by_hand("steps", _steps(8)), peak_tflops=100))


def _with_mfu(times: list[float]) -> dict[str, Any]:
    steps_of_run = [{"table": "steps", "step": i, "step_time_s": t, "mfu": 0.15} for i, t in enumerate(times)]
    return by_hand("steps", steps_of_run)


def test_rare_pauses_are_no_part_of_a_steady_step() -> None:
    """A program that evaluates inside some of its iterations."""
    table = waterfall(_with_mfu([1.0, 1.0, 1.0, 35.0] + [1.0] * 16))
    assert _bars(table) == pytest.approx({"work at the peak": 0.15, "unattributed": 0.85, "rare pauses": 1.7})
    assert rows(table)[0]["doubt"] == "from the MFU that the log prints"
    assert table["of_steady"].dropna().to_dict() == pytest.approx({0: 0.15, 1: 0.85})
    assert table["whole_s"].iloc[0] == pytest.approx(2.7)


def test_a_pause_that_a_phase_times_is_no_rare_pause() -> None:
    """One step of 20 takes 9 s longer in its data phase on rank 1, for which rank 0 waits outside of all phases."""
    each = [(step, rank, 9.0 * (step == 7)) for step in range(20) for rank in range(2)]
    steps = [{"table": "steps", "step": step, "rank": rank, "step_time_s": 1.0 + more} for step, rank, more in each]
    data = [_phase("data", step, 0.9 + more * rank, rank) for step, rank, more in each]
    bars = waterfall(_of("reference", [*steps, *data], 2))
    assert _bars(bars) == pytest.approx({"data": 0.9 + 0.225, "unattributed": 0.1, "rare pauses": 0.225})


def test_steps_of_two_lengths_are_no_pauses() -> None:
    assert _bars(waterfall(_with_mfu([1.0, 3.0] * 10))).keys() == {"work at the peak", "unattributed"}


@examples(50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["exchange", "gemm1", "gate", "wait", "sort", "data", "backward", "experts_backward"]),
            st.floats(0.001, 2), st.floats(0.001, 2), st.sampled_from([1, 2]),
        ),
        min_size=1, max_size=8, unique_by=lambda phase: phase[0],
    ),
    st.floats(0.1, 5), st.sampled_from([None, 0.001]),
)  # fmt: skip
def test_bars_add_up_whatever_the_phases_are(
    phases: list[tuple[str, float, float, int]], time_s: float, peak: float | None
) -> None:
    """Phases of two ranks, longer or shorter than the step that they are in, once or twice in it."""
    values = [
        _phase(name, step, times[rank], rank, occurrence=k)
        for step in range(6)
        for rank in range(2)
        for name, *times, often in phases
        for k in range(1, often + 1)
    ]
    values += [_phase("forward", step, time_s / 2, rank) for step in range(6) for rank in range(2)]
    made = _of("reference", [*_steps(6, time_s), *values], 2)
    table = waterfall(made, peak_tflops=peak)
    if not len(table):  # nothing is told of a step whose phases cannot be its parts
        assert "step" in {misfit.whole for misfit in misfits(Tables(made), None)}
        return
    assert table["time_s"].sum() == pytest.approx(time_s, rel=1e-9)
    assert (table["time_s"][~table["bar"].isin(["unattributed", "warm-up"])] > 0).all()
    assert {row["bar"]: bool(row["formula"]) for row in rows(table)} == dict.fromkeys(table["bar"], True)


def test_earlier_steps_that_are_faster_are_no_warm_up() -> None:
    """40 steps of 0.5 s, then 80 of 0.7 s: the whole is the mean of the latter."""
    times = [0.5 + step % 3 / 1000 for step in range(40)] + [0.7 + step % 3 / 1000 for step in range(80)]
    lines = [
        {"step": step, "step_time_s": time} | more
        for step, time in enumerate(times, 1)
        for more in ({}, {"table": "phases", "phase": "compute", "time_s": time - 0.1})
    ]
    bars = rows(waterfall(by_hand("steps", lines)))
    assert [row["bar"] for row in bars] == ["mixed", "unattributed"]
    assert bars[0]["whole_s"] == pytest.approx(mean(times[40:]))


def test_an_mfu_of_the_peak_of_another_gpu_is_no_work() -> None:
    """NanoGPT prints its MFU as a share of the peak of an A100, whatever GPU it runs on."""
    made = _with_mfu([1.0] * 8)
    printed = _times_of_work(Tables(made), Options())[0]
    assert printed == {"r": pytest.approx(0.15)}
    given = {**made, "runs": made["runs"].assign(config=json.dumps({MFU_PEAK_OF: "A100"}))}
    assert _times_of_work(Tables(given), Options())[0] == {}


# --- bars of one whole ------------------------------------------------------------------------------------------------


def whole(*pieces: tuple[Any, ...], **lines: tuple[int, int]) -> Any:
    return module._Whole({"run": "r"}, [module._Piece(*piece) for piece in pieces], lines)


def times(of: Any) -> dict[tuple[str, str], float]:
    """The time of each bar and part."""
    found: dict[tuple[str, str], float] = {}
    for piece in of.pieces:
        found[piece.bar, piece.part] = found.get((piece.bar, piece.part), 0.0) + piece.seconds
    return found


def is_untimed(piece: Any) -> bool:
    return bool(piece.bar == "unattributed")


@pytest.mark.parametrize(
    ("amount", "lacking", "moved"),
    [(2.0, 0.0, 2.0), (4.0, 0.0, 4.0), (5.0, 1.0, 4.0), (0.0, 0.0, 0.0), (4.0 * (1 + 1e-10), 0.0, 4.0)],
)
def test_time_moves_from_each_piece_in_proportion(amount: float, lacking: float, moved: float) -> None:
    """No more than there is; what is lacking is returned, unless it comes from rounding. Negative pieces give none."""
    of = whole(
        ("unattributed", 1.0, "step"), ("unattributed", 3.0, "forward", "step"), ("compute", 9.0, "mlp"),
        ("unattributed", -1.0, "backward"),
    )  # fmt: skip
    assert of.move(amount, "data", is_untimed, doubt="guessed") == lacking
    found = times(of)
    assert found.get(("data", "step"), 0.0) == pytest.approx(moved / 4)
    assert found.get(("data", "forward"), 0.0) == pytest.approx(3 * moved / 4)
    assert found["compute", "mlp"] == 9.0 and found["unattributed", "backward"] == -1.0
    assert sum(found.values()) == pytest.approx(12.0)
    assert all(piece.doubts == ("guessed",) for piece in of.pieces if piece.bar == "data")
    assert [piece.inside for piece in of.pieces if piece.bar == "data"] == [None, "step"] * bool(moved)


def test_time_that_is_not_there_does_not_move() -> None:
    of = whole(("compute", 9.0, "mlp"))
    assert of.move(2.0, "data", is_untimed, "loader") == 2.0 and len(of.pieces) == 1
    assert of.move(3.0, "data", lambda _: True, "loader") == 0.0
    assert times(of) == {("compute", "mlp"): 6.0, ("data", "loader"): 3.0}


def test_the_rows_of_a_whole_are_its_bars_in_order() -> None:
    of = whole(
        ("unattributed", 1.0, "step"), ("compute", 2.0, "mlp"), ("compute", 3.0, "attention"), ("data", 0.0, "loader"),
        ("compute", 0.5, ""), mlp=(7, 90), attention=(5, 80),
    )  # fmt: skip
    of.doubt("compute", "one")
    of.doubt("compute", "two")
    of.pieces[1].doubts += ("one",)
    first, second = of.rows()
    assert (first["bar"], first["time_s"], first["rows"], first["doubt"]) == (
        "compute",
        5.5,
        "mlp, attention",
        "one; two",
    )
    assert (first["first_line"], first["last_line"], first["run"]) == (5, 90, "r")
    assert (second["bar"], second["doubt"], second["first_line"], second["last_line"]) == (
        "unattributed", None, None, None
    )  # fmt: skip
    assert [row["formula"] for row in (first, second)] == [module.BARS["compute"], module.BARS["unattributed"]]


def work(needed: dict[frozenset[str], float], **more: Any) -> Any:
    usual: dict[str, Any] = {"bar": "work at the peak", "working": frozenset(("mlp", "mix")), "counted": None,
                             "executed": (), "as_printed": False}  # fmt: skip
    return module._Work(**{"needed": needed} | usual | more)


@pytest.mark.parametrize(
    ("counted", "executed", "printed", "doubt", "padded"),
    [
        (None, (), False, None, 0.0), (1000.0, (), False, None, 0.0), (None, (1000.0,), False, None, 0.0),
        (1000.0, (1000.0, 1000.0), False, None, 0.0),
        (1000.0, (1000.0, 1500.0), False, "counts 1,000 rows, ranks do 1,000 to 1,500", 0.2),
        (1000.0, (2000.0, 2000.0), False, "counts 1,000 rows, ranks do 2,000", 0.5),
        (1000.0, (500.0, 700.0), False, "counts 1,000 rows, ranks do 500 to 700", 0.0),
        (1000.0, (2000.0,), True, "from the MFU that the log prints", 0.5),
    ],
)  # fmt: skip
def test_work_that_rates_count_and_that_ranks_do(
    counted: float | None, executed: tuple[float, ...], printed: bool, doubt: str | None, padded: float
) -> None:
    of = work({}, counted=counted, executed=executed, as_printed=printed)
    assert (of.doubt, of.padded) == (doubt, pytest.approx(padded))


def test_the_work_of_phases_is_taken_from_them() -> None:
    """What is left of those that compute are slower kernels."""
    of = whole(("compute", 4.0, "mlp"), ("mixed", 2.0, "mix"), ("compute", 1.0, "norm"), ("unattributed", 5.0, "step"))
    module._take_work(of, work({frozenset(("mlp",)): 3.0}, bar="work at plain products"))
    assert times(of) == {
        ("slower kernels", "mlp"): 1.0, ("mixed", "mix"): 2.0, ("compute", "norm"): 1.0, ("unattributed", "step"): 5.0,
        ("work at plain products", "mlp"): 3.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("needed", "doubt"), [(11.0, None), (12.0, None), (13.0, "at this rate the work takes longer")]
)
def test_work_of_a_step_is_taken_from_all_that_may_do_it(needed: float, doubt: str | None) -> None:
    """From computing phases first, then from mixed ones, then from untimed time."""
    of = whole(("mixed", 2.0, "mix"), ("compute", 5.0, "mlp"), ("unattributed", 5.0, "step"), ("data", 3.0, "loader"))
    module._take_work(of, work({frozenset(): needed}))
    found = times(of)
    assert found["data", "loader"] == 3.0 and found["unattributed", "step"] == pytest.approx(max(12.0 - needed, 0.0))
    assert found["work at the peak", "mlp"] == 5.0 and found["work at the peak", "mix"] == 2.0
    doubts = {text for piece in of.pieces for text in piece.doubts}
    assert len(doubts) == (doubt is not None) and all(text.startswith(doubt or "") for text in doubts)


def test_rows_that_each_rank_executes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load is of 10 rows. Of run r a step lacks one of three ranks; run s has two ranks, run t no such unit."""
    means = {run: RunSemantics(None, quantities={"unit_rows": 10.0} if run != "t" else {}) for run in "rst"}
    monkeypatch.setattr("perflog.metrics.run_rows.semantics_by_run", lambda _: means)
    loads = [
        {"run": run, "step": step, "rank": rank, "unit": "block", "amount": amount}
        for run, step, amounts in (("r", 1, (1.0, 2.0, 3.0)), ("r", 2, (7.0, 8.0)), ("s", 1, (4.0, 5.0)),
                                   ("t", 1, (6.0, 6.0)))
        for rank, amount in enumerate(amounts)
    ]  # fmt: skip
    made = by_hand("loads", loads)
    runs = pd.concat([made["runs"].assign(run=run) for run in "rst"])
    found = module._executed_rows(Tables({"runs": runs, "loads": made["loads"]}), Options(warmup=0))
    assert found == {"r": (10.0, 20.0, 30.0), "s": (40.0, 50.0)}


def test_padding_is_the_share_of_the_rows_that_are_not_counted() -> None:
    of = whole(("compute", 4.0, "mlp"), ("compute", 1.0, "norm"))
    module._take_work(of, work({}, counted=750.0, executed=(1000.0,)))
    assert times(of) == {("padding", "mlp"): 1.0, ("compute", "mlp"): 3.0, ("compute", "norm"): 1.0}
    of = whole(("compute", 4.0, "mlp"))
    module._take_work(of, work({frozenset(("mlp",)): 3.5}, counted=750.0, executed=(1000.0,)))
    (padding,) = [row for row in of.rows() if row["bar"] == "padding"]
    assert padding["time_s"] == 0.5  # of the second that it takes: the phase is no longer
    assert padding["doubt"] == "if time grows with the rows; the phases take no longer than the counted work"


@pytest.mark.parametrize(
    ("room", "timed", "found", "doubt"),
    [
        (9.0, True, {"unequal stages": 2.0, "pipeline ramp": 3.0, "unattributed": 4.0}, False),
        (4.0, True, {"unequal stages": 2.0, "pipeline ramp": 2.0, "unattributed": 0.0}, True),
        (9.0, False, {"unequal stages": 2.0, "pipeline ramp": 3.0, "compute": 4.0, "unattributed": 0.0}, False),
    ],
)
def test_losses_of_a_pipeline_are_taken_from_untimed_time(
    room: float, timed: bool, found: dict[str, float], doubt: bool
) -> None:
    """And its work, if no phase times it."""
    of = whole(("unattributed", room, "step"), *([("mixed", 1.0, "forward")] if timed else []))
    pipeline: Any = SimpleNamespace(of="forward", makespan_s=9.0, equal_s=7.0, busy_s=4.0)
    module._take_pipeline(of, pipeline)
    bars: dict[str, float] = {}
    for (bar, _), seconds in times(of).items():
        bars[bar] = bars.get(bar, 0.0) + seconds
    assert bars == pytest.approx(found | ({"mixed": 1.0} if timed else {}))
    reasons = {row["doubt"] for row in of.rows() if row["bar"] == "pipeline ramp"}
    model = "modelled from the forward of the layers alone"
    assert reasons == {f"{model}; the model loses more than is untimed" if doubt else model}


@pytest.mark.parametrize(
    ("slowest", "waits", "inside", "outside", "doubted"),
    [
        (5.0, 9.0, 1.0, 0.0, False), (7.0, 9.0, 2.0, 1.0, False), (9.0, 9.0, 2.0, 3.0, False),
        (9.5, 9.0, 2.0, 3.0, True), (7.0, 0.0, 2.0, 0.0, False),
        (7.0, 0.5, 2.0, 0.5, False), (4.0, 9.0, 0.0, 0.0, False),
    ],
)  # fmt: skip
def test_the_wait_for_the_slowest_rank_of_a_phase_is_taken_from_the_time_around_it(
    slowest: float, waits: float, inside: float, outside: float, doubted: bool
) -> None:
    """Of its parent first, then of the step, where ranks wait no longer than is known. Other phases are left alone."""
    of = whole(
        ("compute", 4.0, "mlp", "forward"), ("unattributed", 2.0, "forward"), ("unattributed", 3.0, "step"),
        ("communication", 9.0, "reduce", "forward"),
    )  # fmt: skip
    spread = [
        ("mlp", "forward", 0.0, 4.0, slowest),
        ("reduce", "forward", 0.0, 4.0, 99.0),
        ("mlp", "step", 0.0, 4.0, 99.0),
    ]
    module._take_unequal_ranks(of, spread, RunSemantics(None), waits)
    left = {part: seconds for (bar, part), seconds in times(of).items() if bar == "unattributed"}
    assert left == pytest.approx({"forward": 2.0 - inside, "step": 3.0 - outside})
    assert times(of).get(("unequal ranks", "mlp"), 0.0) == pytest.approx(inside + outside)
    reasons = [text for piece in of.pieces for text in piece.doubts if "spread" in text]
    assert bool(reasons) == doubted


def test_phases_share_the_time_that_ranks_may_wait_outside_of_them() -> None:
    """`mlp` takes the untimed forward and 1 s of the 1.5 s that ranks wait outside; 0.5 s are left to `norm`."""
    of = whole(("compute", 4.0, "mlp", "forward"), ("compute", 4.0, "norm", "forward"),
               ("unattributed", 2.0, "forward"), ("unattributed", 3.0, "step"))  # fmt: skip
    spread = [(name, "forward", 0.0, 4.0, slowest) for name, slowest in (("mlp", 7.0), ("norm", 6.0))]
    module._take_unequal_ranks(of, spread, RunSemantics(None), 1.5)
    assert {part: seconds for (bar, part), seconds in times(of).items() if bar == "unequal ranks"} == {
        "mlp": 3.0, "norm": 0.5
    }  # fmt: skip


def test_all_columns_of_a_step() -> None:
    """Steps of 10 s on lines 1 to 4; of the forward of 4 s two ranks wait 1 and 3 s, on lines 5 to 12."""
    made = two_waiting_ranks()
    same = {
        "run": "r",
        "label": None,
        "of": "step",
        "whole_s": 10.0,
        "doubt": None,
        "n": 3,
        "first_step": 2,
        "last_step": 4,
    }
    names = ("bar", "time_s", "share", "of_steady", "rows", "first_line", "last_line")
    found = rows(waterfall(made, warmup=1))
    assert all(row.pop("formula") for row in found)
    assert found == [
        same | dict(zip(names, row, strict=True))
        for row in (
            ("mixed", 5.0, 0.5, 0.5, "backward", 2, 4), ("waits", 2.0, 0.2, 0.2, "wait", 7, 12),
            ("unattributed", 3.0, 0.3, 0.3, "forward, step", 2, 4),
        )
    ]  # fmt: skip


def test_shares_of_a_run_are_those_of_its_steady_bars() -> None:
    found = tables(MOE)
    table = waterfall(found)
    for run, shares in module.shares_by_run(found, Options()).items():
        bars: dict[str, float] = {}
        for (bar, _), share in shares.times.items():
            bars[bar] = bars.get(bar, 0.0) + share
        rows_of_run = table[(table["run"] == run) & table["of_steady"].notna()]
        assert bars == pytest.approx(dict(zip(rows_of_run["bar"], rows_of_run["of_steady"], strict=True)))
        assert sum(shares.times.values()) == pytest.approx(1) and shares.of == "step"
