"""What more GPUs bring, and what another schedule brings to a pipeline, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perflog.analysis.overview.facts import scaling_facts as module
from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options
from perflog.metrics.pipelines.schedule_simulation import ONE_F_ONE_B
from perflog.metrics.pipelines.schedules import TIMED

TABLES: Any = None  # what a sentence needs is replaced


def study(*speeds: tuple[int, float], name: str = "", mode: str = "strong", error: float | None = None) -> Any:
    """A study with these speeds by number of GPUs."""
    sizes, by_size = [size for size, _ in speeds], dict(speeds)
    first = sizes[0]
    cost = {size: size / speed for size, speed in speeds}
    return SimpleNamespace(
        sizes=sizes, speeds=by_size, mode=mode, name=name, error=error, settings={}, runs={first: ["r"]},
        efficiency=lambda size: cost[first] / cost[size], speedup=lambda size: by_size[size] / by_size[first],
        predicted=lambda *_: 2.0 * cost[first], cost=cost.__getitem__, growth=lambda _: "growth",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (study((1, 10.0), (2, 15.0)), "Strong scaling from 1 GPU: 1.50 times as fast on 2; efficiency 2 GPUs 75 %."),
        (
            study((2, 10.0), (4, 15.0), (1024, 1500.0), mode=""),
            (
                "Scaling (no batch is printed) from 2 GPUs: 150 times as fast on 1,024; efficiency 4 GPUs 75 %, 1,024 "
                "GPUs 29 %."
            ),
        ),
        (
            study((1, 10.0), (2, 15.0), (4, 16.4)),
            (
                "Strong scaling from 1 GPU: 1.64 times as fast on 4; efficiency 2 GPUs 75 %, 4 GPUs 41 %; from 2 to 4 "
                "GPUs 1.09 times as fast."
            ),
        ),
        (
            study((1, 10.0), (2, 10.5)),
            "Strong scaling from 1 GPU: 1.05 times as fast on 2; efficiency 2 GPUs 52 %.",  # the speedup says it
        ),
        (
            study((1, 10.0), (2, 15.0), (4, 25.0), error=-0.1),
            (
                "Strong scaling from 1 GPU: 2.50 times as fast on 4; efficiency 2 GPUs 75 %, 4 GPUs 62 %; predicted "
                "for 8: 50 % (GPU time of a unit = model; fitted to the smaller sizes it misses 4 by 10.0 %)."
            ),
        ),
        (
            study((1, 10.0), (2, 15.0), (4, 25.0), error=0.11),
            "Strong scaling from 1 GPU: 2.50 times as fast on 4; efficiency 2 GPUs 75 %, 4 GPUs 62 %.",
        ),
    ],
)
def test_a_single_study(monkeypatch: pytest.MonkeyPatch, of: Any, text: str) -> None:
    monkeypatch.setattr(module, "model_text", lambda _: "model")
    assert module._single(of) == text


def test_several_studies_have_the_worst_and_the_best() -> None:
    three = [study((1, 10.0), (4, speed), name=f"s{speed:g}") for speed in (20.0, 10.0, 30.0)]
    assert module._several(three) == "Strong scaling, 3 studies: efficiency on 4 GPUs 25 % (s10) to 75 % (s30)."
    flat = study((1, 10.0), (2, 15.0), (4, 15.5), name="flat")
    assert module._several([flat, three[2]]).endswith(" (s30); the lowest from 2 to 4 GPUs 1.03 times as fast.")
    bends = study((1, 10.0), (2, 11.0), (4, 30.0), name="bends")  # the largest size counts
    assert module._several([three[0], bends]).endswith("efficiency on 4 GPUs 50 % (s20) to 75 % (bends).")
    other = study((1, 10.0), (8, 16.0), name="eight")
    assert "on the most GPUs 20 % (eight) to 75 % (s30)" in module._several([*three, other])


@pytest.mark.parametrize(("speedup", "text"), [(1.499, "1.50"), (99.99, "99.99"), (100.4, "100"), (1234.5, "1,234")])
def test_times_as_fast(speedup: float, text: str) -> None:
    assert module._times(speedup) == text


def test_studies_of_each_mode_with_what_the_worst_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    weak = study((1, 10.0), (2, 15.0), mode="weak")
    bends = study((1, 10.0), (2, 19.0), (4, 20.0), name="bends")
    strong = [study((1, 10.0), (2, 11.0), (4, 30.0), name="best"), bends]
    monkeypatch.setattr(module, "studies", lambda *_: [weak, *strong])
    monkeypatch.setattr(module, "losses", lambda _, of, __: [loss("wait", "x", 0.25, of.sizes[-1])])
    assert list(module.scaling_facts(TABLES, Options())) == [
        "Weak scaling from 1 GPU: 1.50 times as fast on 2; efficiency 2 GPUs 75 %.",
        "Of the 25 % lost on 2 GPUs: 25 % wait.",
        (
            "Strong scaling, 2 studies: efficiency on 4 GPUs 50 % (bends) to 75 % (best); the lowest from 2 to 4 GPUs "
            "1.05 times as fast."
        ),
        "Of the 50 % lost on 4 GPUs (bends): 25 % wait, 25 % the rest.",
    ]


def test_rows_of_runs_in_studies_have_their_size_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    of = study((1, 10.0), (2, 15.0))
    of.settings, of.runs = {"model": "7B"}, {1: ["a", "b"], 2: ["c"]}
    sizes = {run: SimpleNamespace(gpus=gpus, batch=0.5) for run, gpus in (("a", 1), ("b", 1), ("c", 2), ("d", 4))}
    monkeypatch.setattr(module, "studies", lambda *_: [of])
    monkeypatch.setattr(module, "sized_runs", lambda _: sizes)
    groups = [
        RunGroup(mark, "log", tuple(runs), {"lr": "1"})
        for mark, runs in zip("ABCD", ("ab", "c", "d", "e"), strict=True)
    ]
    rows = module.by_size(groups, TABLES, Options())
    assert [(row.mark, row.runs, list(row.settings.items())) for row in rows] == [
        ("A", ("a", "b"), [("gpus", "1"), ("batch", "0.5"), ("model", "7B")]),
        ("B", ("c",), [("gpus", "2"), ("batch", "0.5"), ("model", "7B")]),
        ("C", ("d",), [("gpus", "4"), ("batch", "0.5"), ("model", "-")]),
        ("D", ("e",), [("gpus", "-"), ("batch", "-"), ("model", "-")]),
    ]


def loss(bar: str, part: str, lost: float, size: int = 4) -> Any:
    return SimpleNamespace(bar=bar, part=part, lost=lost, size=size)


HALF = study((1, 10.0), (4, 20.0), name="n")
BENDS = study((1, 10.0), (2, 19.0), (4, 20.0), name="n")


@pytest.mark.parametrize(
    ("of", "losses", "text"),
    [
        (HALF, [loss("communication", "a", 0.2), loss("communication", "b", 0.1)], "30 % communication, 20 % the rest"),
        (HALF, [loss("compute", "a_b", 0.4), loss("mixed", "c", 0.1)], "40 % a b, 10 % c"),
        (HALF, [loss("unattributed", "x", 0.495)], "50 % untimed"),  # the rest is below 1 %
        (HALF, [loss("wait", "x", 0.5), loss("wait", "y", 9.0, size=2)], "50 % wait"),
        (BENDS, [loss("wait", "x", 0.5), loss("wait", "y", 9.0, size=2)], "50 % wait"),
        (HALF, [loss("wait", "x", 0.04)], None),  # a tenth of what is lost
        (HALF, [loss("wait", "x", 0.05)], "5 % wait, 45 % the rest"),
        (HALF, [], None),
        (study((1, 10.0), (4, 39.8)), [loss("wait", "x", 0.005)], None),
        (HALF, [loss("compute", f"p{n}", 0.1) for n in range(5)], "10 % p4, 10 % p3, 10 % p2, 10 % p1, 10 % the rest"),
    ],
)
def test_what_the_largest_size_loses(of: Any, losses: list[Any], text: str | None) -> None:
    whole = [f"Of the 50 % lost on 4 GPUs: {text}."] if text else []
    assert list(module._lost(of, losses, is_alone=True)) == whole
    named = [f"Of the 50 % lost on 4 GPUs (n): {text}."] if text else []
    assert list(module._lost(of, losses, is_alone=False)) == named


@pytest.mark.parametrize(("number", "more"), [(1, 0), (4, 0), (6, 2)])
def test_studies_of_tables(monkeypatch: pytest.MonkeyPatch, number: int, more: int) -> None:
    found = [study((1, 10.0), (2, 15.0), name=f"t{n}") for n in range(number)]
    other = study((1, 10.0), (2, 15.0), name="other")
    other.runs = {1: ["other"]}
    monkeypatch.setattr(module, "table_studies", lambda _: [other, *found])
    texts = list(module.scaling_of_tables(TABLES, "r", Options()))
    assert len(texts) == min(number, 4) + bool(more)
    assert texts[0].startswith("t0: Strong" if number > 1 else "Strong")
    assert not more or texts[-1] == "2 more scaling studies."


def schedule(name: str, idle: float, batches: int = 8, **more: Any) -> Any:
    usual = {"used": False, "of": "equal", "backward_by_rule": False, "activations": 4, "copies": 1, "stages": 4}
    return SimpleNamespace(**({"run": "r", "schedule": name, "idle": idle, "micro_batches": batches} | usual | more))


BASE = "Pipeline of 4 stages and 8 micro-batches, simulated with"
EQUAL, IDLE = f"{BASE} equal stages", "25 % idle under own"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            [schedule(ONE_F_ONE_B, 0.25)],
            f"{EQUAL}: 25 % idle under {ONE_F_ONE_B}, if that is its schedule.",
        ),
        ([schedule("own", 0.25, used=True), schedule("better", 0.245)], f"{EQUAL}: {IDLE}."),
        (
            [schedule("own", 0.25, used=True, of=TIMED, backward_by_rule=True), schedule("better", 0.2)],
            (
                f"{BASE} its stages as timed, the backward as twice the forward: {IDLE}; 20 % under better with "
                "the same memory."
            ),
        ),
        (
            [schedule("own", 0.25, used=True, of=TIMED), schedule("large", 0.125, activations=9)],
            f"{BASE} its stages as timed: 25 % idle under own; 12.5 % under large with more activations.",
        ),
        (
            [schedule("own", 0.25, used=True), schedule("better", 0.2), schedule("large", 0.125, copies=2)],
            (
                f"{EQUAL}: {IDLE}; 20 % under better with the same memory, 12.5 % under large with two "
                "copies of the parameters."
            ),
        ),
        (
            [schedule("own", 0.25, used=True), schedule("other", 0.01, 16), schedule("own", 0.125, 16)],
            f"{EQUAL}: {IDLE}; 12.5 % with 16 micro-batches of half the size.",
        ),
        ([schedule("own", 0.25, used=True), schedule("own", 0.245, 16)], f"{EQUAL}: {IDLE}."),
        ([], None),
    ],
)
def test_schedules_of_a_pipeline(monkeypatch: pytest.MonkeyPatch, rows: list[Any], text: str | None) -> None:
    monkeypatch.setattr(module, "schedule_rows", lambda *_: [schedule("x", 0.0, run="other"), *rows])
    assert list(module.schedules(TABLES, "r", Options())) == ([text] if text else [])
