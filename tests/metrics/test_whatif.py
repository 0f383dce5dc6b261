"""Metric `whatif`: the slowdown by stragglers, against the results of its authors and an oracle of made jobs."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.metrics_logs import by_hand, row, rows
from support.operation_tables import MadeJob, Node, Times, made_job, rows_of, times_of, write_table
from support.paths import SHARED

import perflog
from perflog.errors import InputError
from perflog.metrics import Options, Tables, whatif, whatif_steps
from perflog.metrics.traces.replays.rank_replay import RankReplay
from perflog.metrics.what_if import whatif as module
from perflog.metrics.what_if.operation_graph import COMMUNICATION

STRAGGLER = SHARED / "campaigns" / "straggler"
needs_trace = pytest.mark.skipif(not STRAGGLER.exists(), reason="the traces of the paper are not here")
_PLACES = (("dp_rank", "dp_rank"), ("stage", "stage"), ("kind", "optype"))


@cache
def _authors() -> Tables:
    return Tables(perflog.read(STRAGGLER / "trace-ST.parquet"))


@needs_trace
def test_slowdowns_of_the_authors() -> None:
    table = whatif(_authors())
    expected = json.loads((STRAGGLER / "result-ST.json").read_text())
    job = row(table, of="job")
    assert job["slowdown"] == pytest.approx(expected["blocking_slowdown"], rel=1e-6)
    assert job["traced_s"] / job["replayed_s"] == pytest.approx(expected["launch_slowdown"], rel=1e-6)
    for of, name in _PLACES:
        ours = {str(r[of]): r["slowdown"] for r in rows(table, of=of)}
        assert ours == pytest.approx(expected[f"blocking_decompose_by_{name}"], rel=1e-6)
    assert job["n"] == 32
    assert job["left_out"] == 0


@needs_trace
def test_slowest_workers_and_last_stage_of_the_authors() -> None:
    table = whatif(_authors())
    job = row(table, of="job")
    for file, measure, part in (
        ("mw-ST.json", "m_w", row(table, of="slowest workers")), ("ms-ST.json", "m_s", row(table, of="stage", stage=3))
    ):  # fmt: skip
        expected = json.loads((STRAGGLER / file).read_text())
        assert job[measure] == pytest.approx(expected["rem"], rel=1e-5)
        assert part["mended"] == pytest.approx(expected["rem"], rel=1e-5)
        assert part["without_s"] == pytest.approx(expected["trem"], rel=1e-6)
        assert part["time_s"] == pytest.approx(expected["tadd"], rel=1e-6)
        assert (job["replayed_s"], job["ideal_s"]) == pytest.approx((expected["tori"], expected["tideal"]), rel=1e-6)


@needs_trace
def test_each_step_of_the_authors() -> None:
    table = whatif_steps(_authors())
    expected = json.loads((STRAGGLER / "result-ST.json").read_text())
    for job in rows(table, of="job"):
        step = str(job["step"])
        assert job["traced_s"] == pytest.approx(expected["step_t_base"][step], rel=1e-6)
        assert job["time_s"] == pytest.approx(expected["step_t_nodelay"][step], rel=1e-6)
        assert job["ideal_s"] == pytest.approx(expected["step_t_noblk"][step], rel=1e-6)
        assert job["slowdown"] == pytest.approx(expected["blocking_step_slowdown"][step], rel=1e-6)
        assert job["traced_s"] / job["time_s"] == pytest.approx(expected["launch_step_slowdown"][step], rel=1e-6)
    for of, name in _PLACES:
        ours: dict[str, dict[str, float]] = {}
        for r in rows(table, of=of):
            ours.setdefault(str(r["step"]), {})[str(r[of])] = r["slowdown"]
        by_step = expected[f"blocking_decompose_by_{name}_per_step"]
        assert ours.keys() == by_step.keys()
        for step, of_step in ours.items():
            assert of_step == pytest.approx(by_step[step], rel=1e-6)


@needs_trace
def test_the_overview_says_whose_fault_it_is() -> None:
    reasons = perflog.overview(perflog.read(STRAGGLER / "trace-ST.parquet")).reasons
    assert reasons[0].startswith("The job is 1.18x slower than without stragglers")
    assert reasons[1].startswith("Stage 3 is at fault: if it took the typical times of the others,")
    (culprit,) = perflog.diagnose(perflog.read(STRAGGLER)).culprits
    assert (culprit.name, culprit.kind) == ("stage 3", "slow_stage")


@needs_trace
def test_sampled_steps_are_not_missing() -> None:
    found = perflog.lint(perflog.read(STRAGGLER / "trace-ST.parquet"))
    assert "steps-missing" not in set(found["code"])


@needs_trace
def test_a_folder_has_the_trace_and_its_sizes() -> None:
    log = perflog.read(STRAGGLER)
    assert not log.warnings
    (operations,) = log.table("runs").query("format == 'operations'").to_dict("records")
    assert (operations["label"], operations["world_size"]) == ("ST", 8)


# --- made jobs ------------------------------------------------------------------------------------------------------


def _typical(job: MadeJob, times: Times) -> dict[Node, float]:
    by_kind: dict[str, list[float]] = {}
    for (_, _, node), time in times.items():
        by_kind.setdefault(node[1], []).append(time)
    of_kind = {kind: (median if kind in COMMUNICATION else mean)(values) for kind, values in by_kind.items()}
    return {node: of_kind[node[1]] for node in job.nodes()}


def _mean_step(job: MadeJob, times: Times, steps: int) -> float:
    return mean(job.step_time(times, step) for step in range(steps))


def test_a_slow_worker_by_hand(tmp_path: Path) -> None:
    """2 replicas, 1 stage, 1 micro-batch: forward 1 s, backward 2 s, and 4 s more on replica 1; others take no time."""
    job = made_job(2, 1, 1)
    known = {"forward-compute": 1.0, "backward-compute": 2.0}
    times = times_of(job, 1, lambda _, r, n: known.get(n[1], 0.0) + 4.0 * (r == 1 and n[1] == "backward-compute"))
    table = whatif(perflog.read(write_table(tmp_path / "trace.parquet", rows_of(job, times, 1))))
    found = row(table, of="job")
    # As traced 1 + 6 s. Ideally both take the mean of the backwards, 4 s: 1 + 4 s.
    assert (found["replayed_s"], found["ideal_s"]) == (7.0, 5.0)
    assert found["slowdown"] == 1.4
    assert found["m_w"] == 1.0  # with replica 1 at 4 s nothing is left
    assert {r["dp_rank"]: r["slowdown"] for r in rows(table, of="dp_rank")} == {0: 1.0, 1: 1.4}
    assert {r["kind"]: r["slowdown"] for r in rows(table, of="kind")}["backward-compute"] == 1.4
    reasons = perflog.overview(perflog.read(tmp_path / "trace.parquet")).reasons
    assert reasons[1] == (
        "Rank 1 (dp rank 1 stage 0) is at fault: its times alone make the job 1.40x slower; if it took the "
        "typical times of the others, the slowdown would be gone."
    )
    diagnosis = perflog.diagnose(perflog.read(tmp_path / "trace.parquet"))
    assert diagnosis.verdict == "No failure is reported; rank 1 (dp rank 1, stage 0) slows the job"
    assert reasons[1] == f"Rank 1 (dp rank 1 stage 0) is at fault: {diagnosis.culprits[0].evidence[0]}."
    (tmp_path / "run.csv").write_text("step,loss\n" + "".join(f"{step},{9 / step}\n" for step in range(1, 30)))
    told = perflog.overview(perflog.read(tmp_path)).reasons  # beside other logs it has its mark
    assert f"B: {' '.join(reasons[:2])}" in told


@pytest.mark.parametrize("slow", [(9,), (5, 9)])
def test_the_slowest_workers_have_names(tmp_path: Path, slow: tuple[int, ...]) -> None:
    """The slowest 3 % of 34 workers are two. Where only one of them takes longer than the others, it alone is named."""
    job = made_job(34, 1, 1)
    known = {"forward-compute": 1.0, "backward-compute": 2.0}
    times = times_of(job, 1, lambda _, r, n: known.get(n[1], 0.0) + 4.0 * (r in slow and n[1] == "backward-compute"))
    log = perflog.read(write_table(tmp_path / "trace.parquet", rows_of(job, times, 1)))
    names = [f"rank {rank} (dp rank {rank} stage 0)" for rank in slow]
    (told,) = (text for text in perflog.overview(log).reasons if "at fault" in text)
    assert told.lower().startswith(f"{'; '.join(names)} {'are' if len(slow) > 1 else 'is'} at fault: ")
    assert [culprit.rank for culprit in perflog.diagnose(log).culprits] == list(slow)


@st.composite
def _jobs(draw: st.DrawFn) -> tuple[MadeJob, Times, int]:
    stages = draw(st.integers(1, 4))
    chunks = draw(st.integers(1, 3)) if stages > 1 else 1
    batches = stages * draw(st.integers(1, 2)) if chunks > 1 else draw(st.integers(1, 6))
    edges = stages > 1 and (chunks > 1 or draw(st.booleans()))
    job = made_job(draw(st.integers(1, 3)), stages, batches, chunks, draw(st.booleans()), edges)
    steps, random = draw(st.integers(1, 2)), draw(st.randoms(use_true_random=False))
    scale = {"forward-compute": 1.0, "backward-compute": 2.0}
    # Whole milliseconds: all sums are exact enough to be equal.
    times = times_of(job, steps, lambda _s, _r, n: round(random.uniform(0.5, 2) * scale.get(n[1], 0.1), 3))
    return job, times, steps


@examples(50, shares_fixtures=True)
@given(_jobs())
def test_replays_are_those_of_the_oracle(tmp_path: Path, made: tuple[MadeJob, Times, int]) -> None:
    job, times, steps = made
    log = perflog.read(write_table(tmp_path / "trace.parquet", rows_of(job, times, steps)))
    table = whatif.table(Tables(log), Options())
    found = row(table, of="job")
    typical = _typical(job, times)

    def run(traced: set[tuple[int, Node]]) -> float:
        mixed = {(s, r, n): t if (r, n) in traced else typical[n] for (s, r, n), t in times.items()}
        return _mean_step(job, mixed, steps)

    everything = {(replica, node) for _, replica, node in times}
    assert found["replayed_s"] == pytest.approx(found["traced_s"], rel=1e-6)
    assert found["replayed_s"] == pytest.approx(run(everything), rel=1e-6)
    assert found["ideal_s"] == pytest.approx(run(set()), rel=1e-6)
    for of, place in (("dp_rank", lambda r, _: r), ("stage", lambda _, n: n[0])):
        for part in rows(table, of=of):
            own = {(r, n) for r, n in everything if place(r, n) == part[of]}
            assert part["time_s"] == pytest.approx(run(own), rel=1e-6)
            assert part["without_s"] == pytest.approx(run(everything - own), rel=1e-6)


def test_steps_without_all_operations_are_left_out(tmp_path: Path) -> None:
    job = made_job(2, 2, 2)
    times = times_of(job, 3, lambda step, _r, _n: 0.1 + step)
    table = [r for r in rows_of(job, times, 3) if not (r["step"] == 13 and r["dp_rank"] == 1 and r["stage"] == 0)]
    found = row(whatif(perflog.read(write_table(tmp_path / "trace.parquet", table))), of="job")
    assert (found["n"], found["left_out"]) == (2, 1)


def test_a_job_whose_stage_is_missing_has_a_reason_and_no_figure(tmp_path: Path) -> None:
    job = made_job(2, 3, 3)
    table = [r for r in rows_of(job, times_of(job, 1, lambda *_: 0.1), 1) if r["stage"] != 1]
    log = perflog.read(write_table(tmp_path / "trace.parquet", table))
    (found,) = rows(whatif(log))
    assert (found["slowdown"], found["assumes"]) == (None, "no forward and backward of stage 1")
    assert (
        perflog.overview(log).reasons[0]
        == "What stragglers cost cannot be replayed: no forward and backward of stage 1."
    )


def test_other_tables_are_left_out_and_told(tmp_path: Path) -> None:
    job = made_job(1, 1, 1)
    write_table(tmp_path / "trace-a.parquet", rows_of(job, times_of(job, 1, lambda *_: 0.1), 1))
    (tmp_path / "meta-a.yaml").write_text("trial_name: a\nworld_size: 1\n")
    pq.write_table(pa.table({"price": [1], "colour": ["red"]}), tmp_path / "shop.parquet")
    with pa.ipc.new_file(tmp_path / "shop.arrow", pa.schema([("size", pa.int64())])):
        pass
    log = perflog.read(tmp_path)
    assert len(log) == 1
    unknown = "columns that perflog does not know"
    assert log.warnings == [
        f"left out, because each is an Arrow file of {unknown}: size: {tmp_path / 'shop.arrow'}",
        f"left out, because each is a Parquet file of {unknown}: price, colour: {tmp_path / 'shop.parquet'}",
    ]
    with pytest.raises(InputError, match="columns that perflog does not know: price, colour"):
        perflog.read(tmp_path / "shop.parquet")


def test_an_arrow_file_is_the_same_table(tmp_path: Path) -> None:
    job = made_job(2, 2, 3)
    made = rows_of(job, times_of(job, 1, lambda _s, r, n: 0.1 + 0.01 * r + 0.02 * n[0]), 1)
    table = pa.Table.from_pylist(made)
    with pa.ipc.new_file(tmp_path / "trace.arrow", table.schema) as file:
        file.write_table(table)
    parquet = perflog.read(write_table(tmp_path / "trace.parquet", made))
    columns = ["of", "dp_rank", "stage", "slowdown", "mended"]
    assert whatif(parquet)[columns].equals(whatif(perflog.read(tmp_path / "trace.arrow"))[columns])


# --- jobs that are modelled from other tables ------------------------------------------------------------------------


def test_layers_of_stages_are_a_pipeline() -> None:
    """Of the forward alone a step ends at sum f + (m - 1) max f, of equal stages at (m + p - 1) mean f."""
    log = perflog.find_runs("reference:pipeline_layers.txt")
    rows = whatif(log)
    job = rows.iloc[0]
    assert (job["of"], job["rests_on"]) == ("job", "layers") and "1F1B" in job["assumes"]
    layers = Tables(log)["layers"]
    steady = layers[layers["step"] >= layers["step"].max() - job["n"] + 1]
    by_stage = steady.groupby(["step", "stage"])["time_s"].sum().unstack() / 32
    ends = by_stage.sum(axis=1) + 31 * by_stage.max(axis=1)
    ideal = (32 + 8 - 1) * by_stage.to_numpy().mean()
    assert (job["replayed_s"], job["ideal_s"]) == pytest.approx((ends.mean(), ideal))
    assert job["slowdown"] == pytest.approx(ends.mean() / ideal)
    stages = rows[rows["of"] == "stage"]
    assert stages.iloc[0]["stage"] == 7 and stages.iloc[0]["longer"] == pytest.approx(
        by_stage[7].mean() / by_stage.to_numpy().mean()
    )


def test_phases_of_ranks_meet_where_they_communicate() -> None:
    """Each step by events: a rank goes on alone, begins communication with all others, and ends waiting with them."""
    log = perflog.find_runs("reference:moe_layer.txt#1")
    job = whatif(log).iloc[0]
    assert job["rests_on"] == "phases" and "begin communication" in job["assumes"]
    kinds = {"gate": "compute", "exchange": "communication", "select": "compute", "dispatch": "compute", "wait": "wait"}
    phases = Tables(log)["phases"]
    phases = phases[phases["phase"].isin(kinds) & (phases["step"] > phases["step"].max() - job["n"])]
    shortest = phases.groupby(["step", "phase"])["time_s"].min()
    counted = phases.assign(
        time_s=[0 if p == "wait" else shortest[s, p] if p == "exchange" else t
                for s, p, t in phases[["step", "phase", "time_s"]].itertuples(index=False)]
    )  # fmt: skip
    typical = counted.groupby("phase")["time_s"].mean()
    ends: dict[str, list[float]] = {"replayed": [], "ideal": []}
    for _, in_step in counted.groupby("step"):
        by_rank = {rank: list(of[["phase", "time_s"]].itertuples(index=False)) for rank, of in in_step.groupby("rank")}
        for name, of_name in ends.items():
            clock = dict.fromkeys(by_rank, 0.0)
            for place in range(len(kinds)):
                if kinds[by_rank[0][place][0]] != "compute":
                    clock = dict.fromkeys(clock, max(clock.values()))
                for rank, of_rank in by_rank.items():
                    phase, time = of_rank[place]
                    clock[rank] += time if name == "replayed" else typical[phase]
            of_name.append(max(clock.values()))
    assert job["replayed_s"] == pytest.approx(mean(ends["replayed"]))
    assert job["ideal_s"] == pytest.approx(mean(ends["ideal"]))


_MEGATRON = """ iteration {step:8d}/     100 | consumed samples:           64 \
| elapsed time per iteration (ms): 1000.0 \
| learning rate: 1.0E-04 | global batch size:    64 | lm loss: 1.0E+01 | loss scale: 1.0 | grad norm: 1.0 \
| number of skipped iterations:   0 | number of nan iterations:   0 |
times across ranks (ms):
"""


def test_timers_of_megatron_ranks(tmp_path: Path) -> None:
    """Rank 2 takes 100 ms more for each backward, for which the others wait in the reduction of gradients."""
    timers = {
        "forward-compute": [200.0] * 4, "backward-compute": [400.0, 400.0, 500.0, 400.0],
        "all-grads-sync": [150.0, 151.0, 50.0, 152.0], "optimizer": [20.0] * 4,
    }  # fmt: skip
    text = "".join(
        _MEGATRON.format(step=step)
        + "".join(
            f"  {name}:\n" + "".join(f"     rank {rank:2d}: {time:.2f}\n" for rank, time in enumerate(times))
            for name, times in timers.items()
        )
        for step in range(1, 13)
    )
    (tmp_path / "megatron.log").write_text(text, encoding="utf-8")
    table = whatif(perflog.read(tmp_path / "megatron.log"))
    job = row(table, of="job")
    assert (job["rests_on"], job["replayed_s"], job["ideal_s"]) == ("phases", pytest.approx(0.75), pytest.approx(0.675))
    worst = rows(table, of="dp_rank")[0]
    assert (worst["dp_rank"], worst["mended"]) == (2, pytest.approx(1)) and worst["slowdown"] == pytest.approx(
        0.75 / 0.675
    )
    assert "left out: optimizer" in job["assumes"]


def test_a_log_of_one_rank_has_no_peers() -> None:
    assert not len(whatif(perflog.find_runs("reference:nvprof.txt")))


def test_rows_of_a_job_with_a_trace_of_each_rank() -> None:
    """Two steps of 50, ideally 40 ns: rank 5 costs it all. One that is as fast as the ideal has no slowdown to mend."""
    names = ("of", "rank", "slowdown", "mended", "m_w", "time_s", "without_s", "ideal_s", "replayed_s", "traced_s", "n")
    ranks: Any = SimpleNamespace(
        n=2, ranks=[4, 5], replay=RankReplay(104, 100, without=[95, 80], alone=[84, 100], ideal=80, without_slowest=80)
    )
    same = (pytest.approx(40e-9), pytest.approx(50e-9), pytest.approx(52e-9), 2)
    found = list(module._rows_of_ranks(ranks))
    assert [tuple(row.get(name) for name in names) for row in found] == [
        ("job", None, 1.25, None, 1.0, pytest.approx(50e-9), None, *same),
        ("worker", 5, 1.25, 1.0, None, pytest.approx(50e-9), pytest.approx(40e-9), *same),
        ("worker", 4, 1.05, 0.25, None, pytest.approx(42e-9), pytest.approx(47.5e-9), *same),
    ]
    assert {(row["rests_on"], row["left_out"]) for row in found} == {("collectives", 0)}
    ranks.replay = RankReplay(80, 80, without=[80, 80], alone=[80, 80], ideal=80, without_slowest=80)
    assert all(math.isnan(row["m_w" if row["of"] == "job" else "mended"]) for row in module._rows_of_ranks(ranks))


@pytest.mark.parametrize(
    ("numbers", "order"),
    [
        ([None] * 6, [2, 0, 1, 5, 4, 3]),  # in order of time, by step and kind
        ([0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5]),  # as printed
    ],
)
def test_operations_count_in_order_of_time_unless_they_are_numbered(
    numbers: list[int | None], order: list[int]
) -> None:
    same = {"dp_rank": 0, "stage": 0, "name": "forward-compute", "line": 1}
    rows = [
        same | {"step": 1 + at // 3, "start_ns": start, "seq": seq}
        for at, (start, seq) in enumerate(zip((20, 30, 10, 60, 50, 40), numbers, strict=True))
    ]
    found = module._numbered(Tables(by_hand("events", rows)).rows("events"))
    starts = [rows[at]["start_ns"] for at in order]
    assert found.rows["start_ns"].tolist() == starts and found.number.tolist() == [0, 1, 2] * 2


def test_workers_without_a_rank_are_in_the_order_of_stages_and_replicas() -> None:
    job: Any = SimpleNamespace(ranks={(0, 1): 9}, replicas=[0, 1, 4])
    assert [module._rank(job, *worker) for worker in ((0, 0), (4, 0), (0, 1), (1, 1))] == [0, 4, 9, 6]


def test_runs_that_cannot_be_replayed_hide_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks: Any = SimpleNamespace(run="c", n=1, ranks=[4], replay=RankReplay(104, 100, [95], [84], 80, 80))
    jobs = {run: module.NoJob(f"no {run}") for run in "ab"}
    monkeypatch.setattr(module, "replayed_jobs", lambda *_: jobs)
    monkeypatch.setattr(module, "replayed_ranks", lambda _: [ranks])
    found = rows(whatif.table(Tables(by_hand("events", [{}])), Options()))
    assert [(row["run"], row["of"], row["rank"], row["assumes"] and row["assumes"][:4]) for row in found] == [
        ("a", "job", None, "no a"), ("b", "job", None, "no b"), ("c", "job", None, "betw"), ("c", "worker", 4, "betw"),
    ]  # fmt: skip
