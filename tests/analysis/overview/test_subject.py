"""The subject of an overview: what ran, in words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand
from support.trace_tables import by_hand as trace_by_hand
from support.trace_tables import kernel

from perflog.metrics import Tables

module: Any = import_module("perflog.analysis.overview.subject")  # the package has a function of this name


def tables(*rows: dict[str, Any], runs: int = 1, **columns: Any) -> Tables:
    """Runs r0, r1, ... with these columns of `runs`: one value for all, or a list."""
    frames = by_hand("steps", rows)
    every = pd.concat(
        [frames["runs"].assign(run=f"r{n}", log=f"{n}.txt", line=n) for n in range(runs)], ignore_index=True
    )
    for name, value in columns.items():
        every[name] = value
    return Tables(frames | {"runs": every})


def words(of: Tables, logs: int = 1) -> list[str]:
    """The subject of these runs, from so many logs."""
    runs = of.rows("runs")["run"].tolist()
    keys = [SimpleNamespace(sha256=min(place, logs - 1), log="") for place in range(len(runs))]
    log: Any = type("FakeLog", (), {"run_keys": keys, "__len__": lambda _: len(keys)})()
    return list(module.subject(of, log))


def steps(*numbers: int | None, run: str = "r0", **more: Any) -> list[dict[str, Any]]:
    return [{"run": run, "step": number, "step_time_s": 1.0, "rank": None} | more for number in numbers]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (steps(1, 2, 3), "1 run x 3 steps"),
        (steps(0, 1, 2), "1 run x 3 steps"),
        (steps(5, 6, 7), "1 run x 3 steps (5-7)"),
        (steps(2), "1 run x 1 step (number 2)"),
        (steps(1), "1 run x 1 step"),
        (steps(5, 7), "1 run x 2 steps"),  # with gaps
        (steps(*range(10, 61, 10)), "1 run x 60 steps (6 printed)"),  # it does not print what a line covers
        (steps(10, 20, 25, 70, 71, 90), "1 run x 6 steps"),
        (steps(10, 20, 30, steps_averaged=10), "1 run x 30 steps (3 printed)"),
        (steps(20, steps_averaged=20), "1 run x 20 steps (1 printed: number 20)"),
        (steps(110, 120, steps_averaged=10), "1 run x 20 steps (2 printed: 101-120)"),
        (steps(None, None), "1 run, 2 step lines without numbers"),
        ([], "1 run"),
        ([*steps(1, 2), *steps(1, 2, copy=2), *steps(2)], "1 run x 2 steps"),
    ],
)
def test_the_number_of_steps(rows: list[dict[str, Any]], text: str) -> None:
    assert words(tables(*rows)) == ["no known format", text]


@pytest.mark.parametrize(
    ("epochs", "text"),
    [
        (range(62, 91), "1 run, epochs 62 to 90 in a log of 7780 s"),
        ((1, 1, 2, 3, 3, 4), "1 run"),
        ((5, 4, 3, 2, 1, 0), "1 run"),
    ],
)
def test_epochs_of_a_run_without_steps(epochs: Sequence[int], text: str) -> None:
    rows = [{"run": "r0", "line": line, "key": "EPOCH", "value": float(epoch)} for line, epoch in enumerate(epochs)]
    stamps = [{"run": "r0", "line": n, "kind": "log", "printed_ns": n * 7780 * 10**9} for n in range(2)]
    made = by_hand("values", rows) | {"milestones": by_hand("milestones", stamps)["milestones"]}
    assert text in words(Tables(made))


def test_runs_of_several_lengths() -> None:
    rows = [*steps(1, 2, 3), *steps(1, 2, run="r1")]
    assert words(tables(*rows, runs=2)) == ["no known format", "2 runs of 2 to 3 steps"]
    assert words(tables(*rows, runs=3), logs=3) == ["no known format", "3 logs, 3 runs, 2 of 2 to 3 steps"]
    same = [*steps(5, 6), *steps(5, 6, run="r1")]
    assert words(tables(*same, runs=2)) == ["no known format", "2 runs x 2 steps"]


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"program": "p", "model": "m", "format": "f"}, "p"),
        ({"model": "m", "format": "f"}, "m"),
        ({"format": "f"}, "f"),
        ({"format": ["f", "g"]}, "several formats"),
        ({"format": ["f", None]}, "several formats"),
        ({"program": ["p", "q"], "model": "m"}, "m"),
        ({}, "no known format"),
    ],
)
def test_what_ran(columns: dict[str, Any], name: str) -> None:
    assert words(tables(runs=2, **columns))[0] == name


def test_what_the_runs_have_in_common() -> None:
    found = words(tables(*steps(1, step_time_by="bar"), world_size=1200, device="H100", dtype="bf16"))
    assert found[2:] == ["steps timed by a progress bar", "1,200 ranks", "H100", "bf16"]
    assert words(tables(runs=2, world_size=[1, 2], device="H100"))[2:] == ["H100"]
    assert words(tables(*steps(1, step_time_by="line"), *steps(2, step_time_by="bar")))[2:] == []
    printed = steps(1, run="r1", step_time_by=None)
    assert words(tables(*steps(1, step_time_by="line"), *printed, runs=2))[2:] == []  # one of them prints its times
    assert words(tables(world_size=1))[2:] == ["1 rank"]


def test_a_trace_of_one_rank_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    def device(rank: int | None, iterations: int = 4, annotated: int = 0) -> Any:
        repeated, named = (SimpleNamespace(numbers=range(number)) for number in (iterations, annotated))
        return SimpleNamespace(rank=rank, steps=repeated, annotated=named)

    devices = [device(3), device(None)]
    monkeypatch.setattr(module, "trace_devices", lambda _: devices)
    assert words(tables(world_size=8))[2:] == ["4 iterations found by repeated kernels", "rank 3 of 8"]
    devices[:] = [device(3), device(4, 5)]
    assert words(tables(world_size=8))[2:] == ["2 of 8 ranks"]
    assert words(tables(world_size=2))[2:] == ["2 ranks"]
    for devices[:] in ([device(3, 0)], [device(3, 4, 4)]):
        assert words(tables(world_size=8))[2:] == ["rank 3 of 8"]


def test_attempts_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that were done twice count once."""
    of = tables(*steps(1, 2, 3), *steps(3, 4, 5, run="r1"), *steps(20, 30, run="r2", steps_averaged=10), runs=3)
    loaded: dict[str, int | None] = {"r0": None, "r1": 1, "r2": 5}
    monkeypatch.setattr(module, "attempts", lambda _: {run: SimpleNamespace(step=step) for run, step in loaded.items()})
    monkeypatch.setattr(module, "jobs", lambda _: {"a": ["r0", "r1"], "b": ["r2"]})
    # r1 went on from step 1, so its first line covers steps 2 and 3; r2 from step 5, and its first line covers 6 to 20.
    assert words(of, logs=3)[1] == "3 logs, 2 jobs, 3 attempts, 30 steps (2 done again)"
    assert sorted(module._covered(of, "r1").tolist()) == [2, 3, 4, 5]
    loaded["r1"] = 2
    assert words(of, logs=3)[1].endswith(" (1 done again)")
    assert sorted(module._covered(of, "r2").tolist()) == list(range(6, 31))
    loaded["r2"] = 25
    assert sorted(module._covered(of, "r2").tolist()) == list(range(11, 31))
    monkeypatch.setattr(module, "jobs", lambda _: {"a": ["r0", "r1"]})
    assert words(of, logs=3)[1].startswith("3 logs, 3 runs")


@pytest.mark.parametrize(
    ("numbers", "covered", "last", "count"),
    [
        ([1, 2, 3], [1, 1, 1], 3, 3),
        ([10, 20, 30], [10, 10, 10], 30, 30),
        ([10, 20, 30], [10, 10, 10], 33, 33),  # a later line prints the same clock
        ([10, 20, 25], [10, 10, 10], 25, 25),  # windows overlap
        ([10, 20, 30], [None, 10, 10], 30, 30),
        ([5, 20, 30], [None, 10, 10], 30, 25),
        ([1, 20, 30], [1, 1, 10], 30, 3),  # most lines cover one step
        ([100, 110], [10, 10], 110, 20),
    ],
)
def test_the_steps_that_lines_cover(numbers: list[int], covered: list[int | None], last: int, count: int) -> None:
    rows = [row for n, of in zip(numbers, covered, strict=True) for row in steps(n, steps_averaged=of)]
    assert module._steps(tables(*rows).rows("steps"), {"r0": last}) == count


def form(program: str | None, generic: bool = False, library: bool = False) -> Any:
    return SimpleNamespace(program=program, generic=generic, library=library)


FORMATS = {
    "trainer": form("Trainer"), "deepspeed": form("DeepSpeed", library=True), "torch": form("Torch", library=True),
    "any": form("Any", generic=True), "nameless": form(None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("first", "joined", "text"),
    [
        ("trainer", "deepspeed", "Trainer with DeepSpeed"),
        ("trainer", "deepspeed, torch", "Trainer with DeepSpeed and Torch"),
        ("trainer", "trainer, unknown, any, nameless", None),
        ("trainer", "trainer, deepspeed", "Trainer with DeepSpeed"),
        ("any", "trainer, deepspeed", "Trainer with DeepSpeed"),
        ("any", "deepspeed, torch", "any with DeepSpeed and Torch"),
        ("nameless", "deepspeed, trainer", "Trainer with DeepSpeed"),
        ("unknown", "deepspeed", "unknown with DeepSpeed"),
        ("trainer", None, None),
    ],
)
def test_programs_that_print_together(
    monkeypatch: pytest.MonkeyPatch, first: str, joined: str | None, text: str
) -> None:
    monkeypatch.setattr(module, "formats", lambda: FORMATS)
    of = tables(runs=2, format=first, joined_formats=joined)
    assert module._programs(of.rows("runs")) == text
    assert module._programs(tables(runs=2, format=[first, "x"], joined_formats=joined).rows("runs")) is None


@pytest.mark.parametrize(
    ("name", "logs", "found"),
    [
        ("given", ["a/x", "b"], "given"), ("", ["a/x"], "a/x"), ("", ["a/x", "a/x"], "a/x"), ("", [], "no log"),
        ("", ["a/x", "a/y"], "a"), ("", ["x", "y"], "."), ("", ["/a/b/x", "/a/y"], "/a"),
    ],
)  # fmt: skip
def test_the_name_of_several_logs(name: str, logs: Sequence[str], found: str) -> None:
    log: Any = SimpleNamespace(name=name, run_keys=[SimpleNamespace(log=path) for path in logs])
    assert module.common_name(log) == found
    mixed: Any = SimpleNamespace(name="", run_keys=[SimpleNamespace(log=path) for path in ("x", os.path.abspath("y"))])
    assert module.common_name(mixed) == os.getcwd()


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((0, 1, 2), "3 ranks"), ((0,), None), ((2, 3), "2 of at least 4 ranks"), ((0, 1, 3), "3 of at least 4 ranks"),
        ((None, None), None),
    ],
)  # fmt: skip
def test_the_ranks_that_print_the_steps(ranks: tuple[int | None, ...], said: str | None) -> None:
    rows = [row for rank in ranks for row in steps(1, 2, rank=rank)]
    assert [word for word in words(tables(*rows)) if "rank" in word] == ([said] if said else [])
    known = words(tables(*rows, world_size=8))
    assert [word for word in known if "rank" in word] == ["8 ranks"]


def test_the_ranks_that_print_values_where_one_prints_the_steps() -> None:
    memory = [{"line": rank, "key": "memory", "value": 1.0, "rank": rank} for rank in (1, 0, 2)]
    frames = by_hand("values", memory)
    assert "3 ranks" in words(Tables(frames | {"runs": frames["runs"].assign(run="r0", log="0.txt", line=1)}))


@pytest.mark.parametrize(
    ("values", "same"), [(["a", "a"], "a"), (["a", "b"], None), (["a", None], None), ([None, None], None)]
)
def test_what_all_runs_have(values: list[str | None], same: str | None) -> None:
    assert module._same(tables(runs=2, format=values).rows("runs"), "format") == same


@pytest.mark.parametrize(("config", "said"), [('{"num_gpus": 2}', ["2 GPUs"]), ('{"num_gpus": 0}', []), ("{}", [])])
def test_the_number_of_gpus_that_is_a_setting(config: str, said: list[str]) -> None:
    assert [word for word in words(tables(*steps(1, 2), config=config)) if "GPU" in word] == said


def test_a_trace_of_the_cpu_alone_has_the_rank_of_its_events() -> None:
    events = trace_by_hand([kernel(0, 10, "aten::mm", kind="cpu", device=None, rank=34)])
    frames = {name: events[name] for name in ("runs", "steps", "events", "lines")}
    frames["runs"]["world_size"] = 300
    assert "rank 34 of 300" in words(Tables(frames))
