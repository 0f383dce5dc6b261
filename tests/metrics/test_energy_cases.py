"""Energy of cases against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.metrics_logs import rows

import perflog
from perflog.metrics import energy, energy_cases


def log_of(path: Path, text: str) -> perflog.Log:
    path.write_text(text, encoding="utf-8")
    return perflog.read(str(path))


def energies(path: Path, header: str, *lines: str, **options: Any) -> list[dict[str, Any]]:
    return list(rows(energy_cases(log_of(path, "\n".join([header, *lines, ""])), **options)))


def test_what_a_row_prints_of_a_token_comes_first(tmp_path: Path) -> None:
    """Then what a joule brings, an energy over its tokens, and a power over a rate."""
    head, path = "engine,batch,time_ms", tmp_path / "run.csv"
    cases = {
        "energy_per_1k_tokens_j,avg_power_w,tok_per_s": ("4000,300,50", "energy_per_1k_tokens", 4.0),
        "tok/J,avg_power_w,tok_per_s": ("0.25,300,50", "1 / tok_per_J", 4.0),
        "tokens_per_kWh,avg_power_w": ("1800000.5,300", "1 / tokens_per_kWh", 2.0),
        "tok/s/W,avg_power_w": ("0.5,300", "1 / tok_s_per_W", 2.0),
        "tok/s/watt,avg_power_w": ("0.25,300", "1 / tok_s_per_watt", 4.0),
        "tokens_per_joule,avg_power_w": ("0.25,300", "1 / tokens_per_joule", 4.0),
        "tokens_per_wh,avg_power_w": ("1800.5,300", "1 / tokens_per_wh", 3600 / 1800.5),
        "energy_wh,total_tokens,avg_power_w": ("0.5,900,300", "energy / total_tokens", 2.0),
        "avg_power_w,tok_per_s,idle_power_w": ("300,50,60", "avg_power / tok_per_s", 6.0),
        "cpu_power_w,power_limit_w,tok_per_s": ("300,350,50", None, None),
    }
    for names, (values, source, joules) in cases.items():
        twice = ",".join(str(float(x) * 2) for x in values.split(","))
        found = energies(path, f"{head},{names}", f"a,1,2.5,{values}", f"b,1,2.5,{twice}")
        assert [row["source"] for row in found] == ([source] * 2 if source else []), names
        assert {row["table"] for row in found} <= {1}
        assert [row["energy_unit_j"] for row in found[:1]] == ([pytest.approx(joules)] if source else []), names
        assert all(row["unit"] == "token" for row in found)


def test_the_least_of_a_sweep_and_its_cost(tmp_path: Path) -> None:
    """100 tokens a second on each of 2 GPUs at 3.6 a GPU hour: 10 for a million tokens."""
    found = energies(
        tmp_path / "run.csv", "batch,gpus,tok_per_s,energy_per_token_j", "1,2,200,4.5", "8,2,400,2.5", "64,2,0,",
        gpu_hour=3.6,
    )  # fmt: skip
    assert [(row["case"], row["energy_unit_j"], row["best"]) for row in found] == [
        ("batch 1", 4.5, False), ("batch 8", 2.5, True),
    ]  # fmt: skip
    assert [row["cost_million"] for row in found] == [pytest.approx(10), pytest.approx(5)]
    (one, _) = energies(
        tmp_path / "all.csv", "batch,tok_per_s,energy_per_token_j,avg_power_w", "1,200,4.5,300", "8,400,2.5,310"
    )
    assert one.pop("run") and one == {
        "label": None, "table": 1, "case": "batch 1", "source": "energy_per_token", "of": None, "unit": "token",
        "energy_unit_j": 4.5, "energy_j": None, "power_w": 300, "best": False, "cost_million": None,
    }  # fmt: skip


def test_a_power_of_several_gpus_is_not_divided_by_a_rate(tmp_path: Path) -> None:
    """Whether it is that of one GPU or of all is not told."""
    head = "batch,gpus,avg_power_w,tok_per_s"
    assert not energies(tmp_path / "a.csv", head, "1,4,300,50", "8,4,310,90")
    assert len(energies(tmp_path / "b.csv", head, "1,1,300,50", "8,1,310,90")) == 2


EMISSIONS = """\
timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed,gpu_count
2026-04-21T17:24:38,codecarbon,3a3b-01,100.5,0.25,0.0025,31.75,360.5,11.4,0.5,2.5,0.25,3.25,4
2026-04-21T17:43:10,codecarbon,d795-02,200.5,0.5,0.0025,71.75,360.25,11.4,1.5,5.0,0.5,7.0,4
"""


def test_the_file_of_codecarbon(tmp_path: Path) -> None:
    """KWh without a word of it in the names; the power of a tracked run is no power of a run of steps."""
    log = log_of(tmp_path / "emissions.csv", EMISSIONS)
    found = list(rows(energy_cases(log)))
    assert [(row["case"], row["of"], row["unit"], row["energy_j"]) for row in found] == [
        ("tracked 3a3b-01", "all GPUs", None, 2.5 * 3.6e6), ("tracked d795-02", "all GPUs", None, 5 * 3.6e6),
    ]  # fmt: skip
    assert not len(energy(log))
