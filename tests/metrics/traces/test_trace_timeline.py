"""The timeline of traces: no event is lost at any level of detail, and its times are those of other metrics."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.field_logs import needs_corpus
from support.paths import SHARED, TESTS
from support.trace_tables import by_hand, host, in_ns, kernel, reduce, small, step

import perflog
from perflog.metrics import Tables, critical_path, device_time, trace_timeline
from perflog.metrics.traces.over_time import trace_timeline as module
from perflog.metrics.traces.over_time.trace_timeline import MOST_SPANS

HTA = SHARED / "corpus/torchtrace/facebookresearch__HolisticTraceAnalysis__sampled_rank-{}.json.gz"


def tables(ranks: int = 2, steps: int = 3, kernels: int = 1, apart: int = 0) -> Tables:
    """Rank r computes 300 of 1000 ns in some kernels, then moves for 200 ns, of which 100 are hidden."""
    events = []
    for r in range(ranks):
        who = {"rank": r, "part": r, "device": r}
        for s in range(steps):
            at = 1000 * s + apart * r
            events.append(step(s, at, at + 1000, rank=r, part=r))
            size = 300 // kernels
            events += [kernel(at + k * size, at + (k + 1) * size) | who for k in range(kernels)]
            events.append(reduce(at + 200, at + 400) | who)
    return by_hand(events)


def test_the_states_of_a_device_are_its_time() -> None:
    found = trace_timeline(tables())
    devices = found[found["part"] == "devices"]
    assert list(dict.fromkeys(devices["track"])) == ["rank 0, device 0", "rank 1, device 1"]
    times = device_time(tables()).query("part == 'trace'")
    for (_, rows), (_, told) in zip(devices.groupby("track"), times.iterrows(), strict=True):
        for state in ("compute", "communication"):
            assert rows[rows["kind"] == state]["time_s"].sum() == pytest.approx(told[f"{state}_s"])
        idle = rows[rows["kind"].str.startswith("idle: ")]["time_s"].sum()
        # The idle time of the timeline lasts until the end of the last step.
        assert idle == pytest.approx(told["idle_s"] + 600e-9)


def test_a_step_of_median_length_is_shown_by_itself() -> None:
    found = trace_timeline(tables(steps=5))
    inside = found[found["part"] == "step"]
    assert set(inside["step"]) == {2} and set(inside["rank"]) == {0}
    streams = inside[inside["track"].str.startswith("stream")]
    assert streams["begin_s"].min() == pytest.approx(2000e-9)
    assert sorted(streams["span_s"]) == pytest.approx([200e-9, 300e-9])
    assert set(trace_timeline(tables(steps=1, ranks=1))["part"]) == {"trace"}, "nothing is merged"


def test_without_steps_the_middle_is_shown_in_detail() -> None:
    given = by_hand([kernel(100 * k, 100 * k + 90) for k in range(4000)])
    found = trace_timeline(given)
    middle = found[found["part"] == "middle"]
    assert (found[found["part"] == "trace"]["grain_s"] > 0).all() and (middle["grain_s"] == 0).all()
    streams = middle[middle["track"].str.startswith(("stream", "no stream"))]
    assert len(streams) == pytest.approx(4000 / 16, abs=2)
    assert streams["begin_s"].mean() == pytest.approx(200e-6, rel=0.01)


def test_devices_without_a_common_time_begin_at_0_each() -> None:
    begins = trace_timeline(tables(apart=10**9)).query("part == 'devices'").groupby("track")["begin_s"].min()
    assert begins.tolist() == [0.0, 0.0]
    begins = trace_timeline(tables(apart=500)).query("part == 'devices'").groupby("track")["begin_s"].min()
    assert begins.tolist() == pytest.approx([0.0, 500e-9])


def test_short_events_are_merged_and_counted() -> None:
    given = tables(ranks=1, steps=40, kernels=150)
    found = trace_timeline(given)
    whole = found[found["part"] == "trace"]
    assert len(whole) <= MOST_SPANS["trace"]
    assert (whole["grain_s"] > 0).all()
    kernels = whole[whole["track"].str.startswith("stream")]
    assert kernels["events"].sum() == 40 * 151
    assert (kernels["time_s"] <= kernels["span_s"] * (1 + 1e-9)).all()
    inside = found[(found["part"] == "step") & found["track"].str.startswith("stream")]
    assert inside["events"].sum() == 151 and (inside["grain_s"] == 0).all()


def _streams(log: perflog.Log, found: pd.DataFrame) -> None:
    events = log.table("events")
    work = events[events["kind"].isin(["kernel", "memcpy", "memset"]) & (events["duration_ns"] > 0)]
    rank = found[found["part"] == "trace"]["rank"].iloc[0]
    work = work[work["rank"] == rank] if not pd.isna(rank) else work
    told = found[(found["part"] == "trace") & found["track"].str.startswith("stream")]
    numbers = told["track"].str.removeprefix("stream ").astype(int)
    assert told.groupby(numbers)["events"].sum().to_dict() == work.groupby("stream").size().to_dict()


@pytest.mark.parametrize("name", ["2022.json", "2024_epoch.json"])
def test_no_event_of_a_trace_is_lost(name: str) -> None:
    log = perflog.read(TESTS / "traces" / name)
    _streams(log, trace_timeline(log))


@needs_corpus
def test_no_event_of_real_traces_is_lost() -> None:
    log = perflog.read(str(HTA).format(0), str(HTA).format(1))
    found = trace_timeline(log)
    _streams(log, found)
    assert all(len(rows) <= MOST_SPANS[part] for part, rows in found.groupby("part"))
    kinds = critical_path(log)
    for part, path in found[found["track"] == "critical path"].groupby("part"):
        one = kinds[(kinds["part"] == part) & (kinds["by"] == "kind") & (kinds["rank"] == path["rank"].iloc[0])]
        one = one[(one["step"] == path["step"].iloc[0]) | (part == "trace")]
        assert path["events"].sum() == one["pieces"].sum()
        assert path["span_s"].sum() == pytest.approx(one["time_s"].sum())


def test_logs_without_traces_have_none() -> None:
    assert trace_timeline(perflog.read(Path(TESTS / "data/training_sweep.txt"))).empty


def test_states_of_the_device_of_a_small_trace() -> None:
    """From the begin of the first step, 50 ns before the first kernel, to the end of the last."""
    found = [row for row in in_ns(trace_timeline(small())) if (row["track"], row["part"]) == ("device", "trace")]
    assert {(row["rank"], row["device"], row["device_name"], row["step"]) for row in found} == {(0, 0, "H100", None)}
    assert [(row["kind"], row["begin_s"], row["span_s"], row["events"], row["time_s"]) for row in found] == [
        (kind, begin, end - begin, 2 if end == 650 else 1, end - begin)
        for kind, begin, end in (
            ("idle: host", -50, -30), ("idle: launch", -30, 0), ("compute", 0, 100), ("memory", 100, 130),
            ("communication", 130, 250), ("idle: sync", 250, 290), ("idle: launch", 290, 310), ("compute", 310, 330),
            ("idle: host", 330, 450), ("idle: launch", 450, 470), ("compute", 470, 650), ("idle: host", 650, 950),
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "device", "name", "shown"),
    [(3, 1, "H100", "rank 3, device 1"), (3, None, None, "rank 3"), (None, 1, "H100", "device 1"),
     (None, None, "H100", "H100"), (None, None, None, "device")],
)  # fmt: skip
def test_names_of_devices(rank: int | None, device: int | None, name: str | None, shown: str) -> None:
    found: Any = SimpleNamespace(rank=rank, device=device, device_name=name)
    assert module._device_name(found) == shown


def test_the_streams_that_work_longest_are_shown_and_ranges_four_deep() -> None:
    """Of 14 streams that work 10 to 23 ns, and of ranges of three threads six deep."""
    work = [kernel(100 * k, 100 * k + 10 + k, stream=k) for k in range(14)]
    ranges = [host(k, 1000 - 100 * thread - k, f"r{k}", kind="range", thread=str(thread))
              for thread in (1, 2, 3) for k in range(6)]  # fmt: skip
    found = trace_timeline(by_hand([*work, *ranges]))
    tracks = list(dict.fromkeys(found[found["part"] == "trace"]["track"]))
    assert [track for track in tracks if track.startswith("stream")] == [f"stream {k}" for k in range(2, 14)]
    assert [track for track in tracks if track.startswith("thread")] == [
        f"thread {k}{depth}" for k in (1, 2) for depth in ("", ", depth 1", ", depth 2", ", depth 3")
    ]
    outer = found[(found["part"] == "trace") & found["track"].isin(["thread 1", "thread 2"])]
    assert outer["span_s"].tolist() == pytest.approx([900e-9, 800e-9])
