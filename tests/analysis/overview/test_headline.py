"""The headline of an overview: the sentence of the cause that binds a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.profiles import profile_of
from support.trace_tables import by_hand, kernel

import perflog
from perflog.analysis.overview import headline as module
from perflog.analysis.overview.headline import headline
from perflog.metrics import Options, Tables
from perflog.metrics.causes.cause import BOUND, REPLAY, Cause

OTHERS = "on the others; without that, the step would be"


def cause(subject: str, share: float, gain: float | None = None, of: str = "step", **more: Any) -> Cause:
    """A cause with shares of a whole of 1 s."""
    usual: dict[str, Any] = {"run": "r", "of": of, "subject": subject, "whole_s": 1.0, "time_s": share, "gain_s": gain}
    return Cause(**(usual | more))


def sentences(monkeypatch: pytest.MonkeyPatch, *causes: Cause, tables: Tables | None = None) -> list[str]:
    """The headline of a run that the first cause binds."""
    monkeypatch.setattr(module, "causes_by_run", lambda *_: {"r": causes})
    monkeypatch.setattr(module, "bound_by", lambda *_: causes[0] if causes else None)
    return list(headline(tables or Tables(profile_of([])), "r", Options()))


def test_graphs_that_are_traced_as_a_whole_are_no_kernels_that_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = cause("compute", 0.9, 0.8, "traced step", metric=REPLAY)
    graph, work = kernel(0, 60, "CUDA graph 3", kind="graph"), kernel(60, 100)
    told = [*(sentences(monkeypatch, bound, tables=by_hand(events))[0] for events in ([graph, work], [work]))]
    shorter = "the step would be 80 % shorter."
    assert told == [
        f"Bottleneck: CUDA graphs, whose kernels are not traced; if they took no time, {shorter}",
        f"Bottleneck: compute; if its kernels were infinitely fast, {shorter}",
    ]


@pytest.mark.parametrize(
    ("causes", "sentence"),
    [
        ([cause("phase", 0.6, name="forward")], "Bottleneck: forward, 60 % of the step."),
        (
            [cause("rank", 0.7, 0.286, name="compute", rank=5, ratio=1.4, by=BOUND)],
            f"Bottleneck: rank 5: its compute takes 1.40 times as long as {OTHERS} at most 29 % shorter.",
        ),
        (
            [cause("rank", 0.7, 0.286, name="save", rank=5, time_s=0.5, by=BOUND)],
            f"Bottleneck: rank 5: its save takes 500 ms, and next to nothing {OTHERS} at most 29 % shorter.",
        ),
        ([cause("data", 0.6, name="loading")], "Bottleneck: loading, 60 % of the step by the clock of the host."),
        (
            [cause("phase", 0.5, name="forward"), cause("untimed", 0.4, name="x", may_bind=False),
             cause("phase", 0.4, name="y", of="phases"), cause("phase", 0.3, name="backward")],
            "Bottleneck: forward, 50 % of the step; then backward, 30 %.",
        ),
        ([cause("host", 0.3, of="trace")], "Bottleneck: the host, while the GPU idles, 30 % of the time."),
        ([cause("compute", 0.3, of="trace")], "Bottleneck: compute, 30 % of the time."),
        (
            [cause("compilation", 0.8, of="trace")],
            ("Bottleneck: compilation: the host compiles or loads kernels in 80 % of the time, while the GPU idles. So "
            "this is a trace of a start, and not of steady steps."),
        ),
        (
            [cause("host", 0.3, 0.25, "traced step", metric=REPLAY), cause("device", 0.7, 0.6, metric=REPLAY),
             cause("device", 0.7, 0.9)],
            ("Bottleneck: the host; if it were infinitely fast, the step would be 25 % shorter (with an infinitely "
            "fast device 60 %)."),
        ),
        (
            [cause("compute", 0.3, 0.25, "trace", metric=REPLAY, by=BOUND), cause("device", 0.7, 0.6, metric=REPLAY),
             cause("host", 0.2, 0.1, metric=REPLAY)],
            ("Bottleneck: compute; if its kernels were infinitely fast, the trace would be at most 25 % shorter "
            "(with an infinitely fast host 10 %)."),
        ),
        (
            [cause("rank", 0.3, 0.25, "trace", rank=3)],
            "Bottleneck: rank 3; if it arrived with the others, the trace would be 25 % shorter.",
        ),
        (
            [cause("rank", 0.3, 0.25, "traced step", rank=3, metric=REPLAY)],
            "Bottleneck: rank 3; if it were as fast as the median rank, the step would be 25 % shorter.",
        ),
        (
            [cause("rank", 0.3, 0.25, "trace", device=5)],
            "Bottleneck: device 5; if it arrived with the others, the trace would be 25 % shorter.",
        ),
        (
            [cause("kernel", 0.6, of="gpu", name="void foo<int>(int)", n=1200, each_s=2e-3)],
            "Bottleneck: kernel foo, 1,200 calls x 2 ms, 60 % of the GPU work.",
        ),
        (
            [cause("kernel", 0.6, of="api", name="cudaMalloc")],
            "Bottleneck: call cudaMalloc, 60 % of the time of API calls.",
        ),
        (
            [cause("unequal stages", 0.3, of="pipeline", stage=2, name="forward", ratio=1.26)],
            "Bottleneck: stage 2 (forward) takes 1.3 times the mean stage.",
        ),
        ([cause("stuck rank", 0.3, of="job")], None),
        ([cause("validation", 0.3, of="run")], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_sentence_of_a_cause(monkeypatch: pytest.MonkeyPatch, causes: list[Cause], sentence: str | None) -> None:
    assert sentences(monkeypatch, *causes) == ([] if sentence is None else [sentence])


def products(*names: str) -> Tables:
    """A profile of matrix products of these names."""
    rows = [{"kind": "kernel", "category": "GPU activities", "name": name, "calls": 1, "time_s": 1.0} for name in names]
    return Tables({name: pd.DataFrame(frame) for name, frame in profile_of(rows).items()})


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["volta_sgemm_128x64_tn", "volta_sgemm_64x64_nn"],
         "FP32 matrix products, 80 %: every gemm is volta_sgemm, no tensor cores."),
        (["volta_sgemm_128x64_tn", "maxwell_sgemm_64x64_nn"], "FP32 matrix products, 80 %: no tensor cores."),
        (["volta_sgemm_128x64_tn", "ampere_s16816gemm_fp16_64x64_nn"], "gemm, 80 % of the GPU work."),
        (["volta_dgemm_128x64_tn"], "gemm, 80 % of the GPU work."),
    ],
)  # fmt: skip
def test_products_without_tensor_cores(monkeypatch: pytest.MonkeyPatch, names: list[str], text: str) -> None:
    bound = cause("kernels", 0.8, of="gpu", name="gemm"), cause("kernel", 0.4, of="gpu", name=names[0])
    assert sentences(monkeypatch, *bound, tables=products(*names)) == [f"Bottleneck: {text}"]


@pytest.mark.parametrize(("slow", "culprit"), [(0.7, "rank 5: its compute"), (0.51, "compute, ")])
def test_a_slow_rank_holds_up_the_steps_of_a_log(tmp_path: Path, slow: float, culprit: str) -> None:
    """Each rank prints the time of the step, which is that of the slowest, and its own compute."""
    lines = [
        f"[rank{rank}] step {step}/400 loss={2 + step / 100} step_time={slow + step % 3 / 1000:.3f}s "
        f"compute={(slow if rank == 5 else 0.5) + (step + rank) % 3 / 1000:.3f}s"
        for step in range(1, 31)
        for rank in range(8)
    ]
    (tmp_path / "run.log").write_text("\n".join(lines))
    log = perflog.read(str(tmp_path / "run.log"))
    (first, *_) = headline(Tables(log), log.runs["run"].iloc[0], Options())
    assert first.startswith(f"Bottleneck: {culprit}")
