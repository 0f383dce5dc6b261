"""Bars that are divided into parts, and the plots of devices and of jobs that draw them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from perflog.metrics import Options, Tables
from perflog.metrics.jobs.job_intervals import CHECKPOINT, STAMPS, STEPS, TRAINING
from perflog.plots.drawing.canvas import Canvas
from perflog.plots.drawing.sketch import Bars, Text
from perflog.plots.drawing.stacked_bars import ShareBar, stacked_shares
from perflog.plots.traces import devices
from perflog.plots.training import job_timeline
from perflog.tables.schema import TABLES

RUNS = pd.DataFrame([{c.name: None for c in TABLES["runs"]} | {"run": run, "label": run, "log": run} for run in "rq"])
CANVAS = Canvas("", Tables({"runs": RUNS}), Options(), sketched=True)
PARTS = {"a": (("black", ""), "part a"), "b": (("white", "//"), "part b")}


def bars_of(axes: Any) -> list[tuple[str, list[float], list[float]]]:
    return [(bar.gid, bar.left.tolist(), bar.right.tolist()) for bar in axes.marks if isinstance(bar, Bars)]


def test_parts_of_a_bar_follow_one_another() -> None:
    bars = {"r": [ShareBar("one", {"a": 0.25, "b": 0.75}, "1 s"), ShareBar("two", {"b": 0.5}, "2 s")], "q": []}
    figure: Any
    figure, panels, handles = stacked_shares(CANVAS, {"r": bars["r"]}, PARTS, (2, 5), "note")
    (axes,) = panels
    assert bars_of(axes) == [("a", [0, 0], [25, 0]), ("b", [25, 0], [100, 50])]
    assert [text.text for text in axes.marks if isinstance(text, Text)] == ["1 s", "2 s"]  # type: ignore[attr-defined]
    assert {text.x for text in axes.marks if isinstance(text, Text)} == {100}  # type: ignore[attr-defined]
    drawn: Any = axes
    assert drawn.yaxis.names == ["one", "two"] and drawn.xaxis.places.tolist() == [0, 20, 40, 60, 80, 100]
    assert (drawn.xaxis.high, drawn.xaxis.label, drawn.title) == (112, "share of the time (%)", "r")
    assert (drawn.yaxis.low, drawn.yaxis.high, drawn.yaxis.inverted) == (-0.6, 1.6, True)
    assert [handle.get_label() for handle in handles] == ["part a", "part b"]
    assert figure.notes == ["note", "1 of 2 runs are shown.", "2 of 5 bars are shown."]


def test_parts_that_are_no_whole_end_anywhere() -> None:
    bars = [ShareBar("one", {"a": 0.1}, "x"), ShareBar("two", {"a": 0.4}, "y")]
    _, (axes,), _ = stacked_shares(CANVAS, {"r": bars}, PARTS, (1, 2), "", is_whole=False)
    drawn: Any = axes
    assert [text.x for text in drawn.marks if isinstance(text, Text)] == [10, 40]
    assert drawn.xaxis.high == pytest.approx(52) and drawn.xaxis.places is None


DEVICE: dict[str, Any] = {
    "run": "r", "rank": 3, "device": 1, "device_name": None, "part": "trace", "step": None, "span_s": 2.0,
    "compute_share": 0.5, "communication_share": 0.2, "memory_share": 0.1, "waiting_share": 0.0, "idle_share": 0.2,
    "communicating_s": 0.8,
}  # fmt: skip


def test_all_communication_ends_with_its_exposed_part() -> None:
    """0.8 of 2 s communicate; 20 % are exposed and end at 70 %: the bar begins at 30 %."""
    rows = pd.DataFrame([DEVICE, DEVICE | {"part": "step", "step": 7, "span_s": 0.0, "communicating_s": 0.0}])
    rows["step"] = rows["step"].astype("Int64")
    figure: Any = devices.device_time.draw(rows, CANVAS)
    (axes,) = figure.axes
    gid, left, right = bars_of(axes)[-1]
    assert gid == "all" and left == pytest.approx([30, 70]) and right == pytest.approx([70, 70])
    assert axes.yaxis.names == ["rank 3, trace", "rank 3, step 7"]
    assert [handle.gid for handle in figure.handles] == ["compute", "communication", "memory", "waiting", "idle", "all"]


def test_the_name_of_a_bar_is_its_first_known_device() -> None:
    names = [devices.bar_name(DEVICE | more) for more in (
        {}, {"rank": None}, {"rank": None, "device": None, "device_name": "GPU"}, {"rank": None, "device": None},
        {"part": "step", "step": 7},
    )]  # fmt: skip
    assert names == ["rank 3, trace", "device 1, trace", "GPU, trace", "trace", "rank 3, step 7"]


def interval(kind: str, begin: int, time_s: float, attempt: int = 1, **more: str) -> dict[str, Any]:
    times = {"begin_ns": 10**18 + begin * 10**9, "time_s": time_s}
    return {"job": "r", "kind": kind, "attempt": attempt, "clock": STAMPS} | times | more


def test_the_strips_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are since the job began; a job without a clock comes last, and its panel says so."""
    goodput = pd.DataFrame({"run": ["r", "q"], "goodput": [0.5, None]})
    monkeypatch.setattr(job_timeline, "get", lambda _: SimpleNamespace(table=lambda *_: goodput))
    rows = pd.DataFrame([
        interval(TRAINING, 5, 9.0, job="q", clock=STEPS), interval(TRAINING, 5, 2.0), interval(CHECKPOINT, 7, 1.0),
        interval(TRAINING, 10, 5.0, 2),
    ])  # fmt: skip
    figure: Any = job_timeline.timeline.draw(rows, CANVAS)
    first, second = figure.axes
    assert (first.title, second.title) == ("r: goodput 50 %", f"q: {job_timeline._PARTS}")
    assert bars_of(first) == [(TRAINING, [0, 5], [2, 10]), (CHECKPOINT, [2], [3])]
    assert (first.xaxis.label, second.xaxis.label) == ("time since the job began (s)", "printed time (s)")
    assert (first.xaxis.low, first.xaxis.high, first.yaxis.names, first.yaxis.label) == (0, 10, ["1", "2"], "attempt")
    assert [handle.get_label() for handle in figure.handles] == [f"{TRAINING}: 16 s", f"{CHECKPOINT}: 1 s"]


def test_strips_of_one_colour_are_not_drawn() -> None:
    steps, saved, stamped = (
        pd.DataFrame([interval(kind, 0, 1.0, clock=clock)])
        for kind, clock in ((TRAINING, STEPS), (CHECKPOINT, STEPS), (TRAINING, STAMPS))
    )
    assert [len(job_timeline._eventful(rows)) for rows in (steps, stamped, pd.concat([steps, saved]))] == [0, 1, 2]
