"""The joules of a token, and what they cost, in words."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from support.metric_tables import replace_table

from perflog.analysis.overview.facts import energy_facts as module
from perflog.metrics import Options
from perflog.metrics.power.energy import ALL, NODE, ONE

TABLES: Any = None  # each table that a sentence needs is replaced

ROW: dict[str, Any] = {
    "energy_token_j": None, "energy_sample_j": None, "cost_million_tokens": None, "cost_million_samples": None,
    "energy_run_j": None, "run_of": None, "run_source": "power", "energy_machine_j": None, "power_w": None,
    "source": "power", "of": None, "measured": None,
}  # fmt: skip
CASE = {
    "table": 1,
    "unit": "token",
    "source": "power",
    "of": ONE,
    "energy_unit_j": 2.0,
    "case": "a",
    "cost_million": None,
}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    replaced = partial(replace_table, monkeypatch, module)
    replaced("energy_cases", **CASE)
    return replaced


def said(*groups: tuple[str, ...], gpu_hour: float = 3.0) -> list[str]:
    """The sentences of these groups of runs, named A, B, ..."""
    made: Any = [SimpleNamespace(mark="ABC"[n], runs=runs) for n, runs in enumerate(groups)]
    return list(module.energy_facts(TABLES, made, Options(gpu_hour=gpu_hour)))


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        ({"energy_token_j": 2.0}, ["Energy: 2 J a token (power)."]),
        (
            {"energy_token_j": 2.0, "power_w": 350.0, "of": ALL, "measured": 1},
            ["Energy: 2 J a token, at 350 W for all GPUs (power)."],
        ),
        (
            {"energy_token_j": 2.0, "power_w": 350.0, "of": ONE, "measured": 1200},
            ["Energy: 2 J a token, at 350 W a GPU (power, mean of 1,200)."],
        ),
        ({"energy_token_j": 2.0, "power_w": 350.0}, ["Energy: 2 J a token, at 350 W (power)."]),
        ({"energy_token_j": 2.0, "power_w": 350.0, "source": "J/token"}, ["Energy: 2 J a token (J/token)."]),
        ({"energy_token_j": 2.0, "power_w": 350.0, "source": "per_token"}, ["Energy: 2 J a token (per_token)."]),
        ({"energy_token_j": 2.0, "energy_sample_j": 9.0}, ["Energy: 2 J a token (power)."]),  # the first of both
        ({"energy_sample_j": 9.0}, ["Energy: 9 J a sample (power)."]),
        (
            {"cost_million_tokens": 0.5, "energy_sample_j": 9.0},
            ["Cost, 3 for a GPU hour: 0.5 for a million tokens."],
        ),
        ({"energy_run_j": 5.0}, ["Energy of a run: 5 J (power)."]),
        (
            {"energy_run_j": 5.0, "run_of": NODE, "energy_machine_j": 8.0},
            ["Energy of a run: 5 J, of the machine (power); 8 J of the machine."],
        ),
        ({}, []),
    ],
)
def test_the_energy_of_a_run(table: Any, row: dict[str, Any], texts: list[str]) -> None:
    table("energy", ROW | row, **ROW | {"measured": 1})
    assert said(("r",)) == texts


def test_of_several_runs_the_least_and_the_most(table: Any) -> None:
    """The mean of a group, if all of its runs have a value."""
    values = {"a": 1.0, "b": 3.0, "c": 7.0, "d": None}
    table(
        "energy", *(ROW | {"run": run, "energy_token_j": value, "energy_run_j": value} for run, value in values.items())
    )
    assert said(("c",), ("a", "b")) == ["Energy: 2 J (B) to 7 J (A) a token.", "Energy of a run: 2 J (B) to 7 J (A)."]
    assert said(("c",), ("a", "d"), ("x",))[0] == "Energy: 7 J a token (power)."
    assert said(("d",), ("x",)) == []


@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ([CASE], []),  # one case is no least
        (
            [CASE, CASE | {"energy_unit_j": 5.0, "case": "b"}, CASE | {"energy_unit_j": 3.0, "case": "c"}],
            ["Energy of one GPU, a token (power): least 2 J (a), most 5 J (b)."],
        ),
        (
            [
                CASE | {"unit": "image", "of": None, "cost_million": 9.0},
                CASE | {"unit": "image", "of": None, "case": "b"},
            ],
            [
                "Energy, an image (power): least 2 J (a), most 2 J (a).",
                "Cost, 3 for a GPU hour: least 9 for a million images (a).",
            ],
        ),
        (
            [CASE | {"unit": None, "of": "x"}, CASE | {"unit": None, "of": "x", "energy_unit_j": 5.0, "case": "b"}],
            ["Energy of x, a case (power): least 2 J (a), most 5 J (b), 7 J together."],
        ),
    ],
)
def test_the_energy_of_cases(table: Any, rows: list[dict[str, Any]], texts: list[str]) -> None:
    table("energy", **ROW)
    table("energy_cases", *rows, **CASE | {"table": 2})
    assert said() == texts


def test_three_tables_of_cases_are_named(table: Any) -> None:
    table("energy", **ROW)
    rows = [CASE | {"table": n, "case": str(k)} for n in range(5) for k in range(2)]
    table("energy_cases", *rows, **CASE | {"table": 9})
    assert len(said()) == 3
