"""Devices with a lower clock from a step on: which, of which node or log, and who the screens accuse of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.analysis.slow_members import slow_members
from perflog.metrics import Options
from perflog.metrics.power.lower_clocks import device_clocks
from perflog.metrics.run_tables import Tables

USUAL = (1980, 64)  # MHz, °C
Reading = tuple[int, int]


def at(second: int) -> str:
    return f"{9 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def job(folder: Path, nodes: dict[str, list[Reading]], since: int = 40) -> perflog.Log:
    """A job of 80 steps of 2 s, 3 s from step `since` on. From then on the devices of nodes have these readings."""
    lines, second = [], 0
    for step in range(1, 81):
        second += 3 if step >= since else 2
        step_time = 3 + step % 3 / 100 if step >= since else 2 + step % 3 / 100
        lines.append(f"2026-11-30 {at(second)} step {step} loss {9 - step / 20:.3f} step_time {step_time:.2f} s\n")
    (folder / "train.log").write_text("".join(lines))
    for node, readings in nodes.items():
        rows = ["timestamp, index, clocks.current.sm [MHz], temperature.gpu\n"]
        for now in range(0, second, 5):
            for gpu, reading in enumerate(readings):
                clock, heat = reading if now >= 2 * since else USUAL
                rows.append(f"2026/11/30 {at(now)}.000, {gpu}, {clock} MHz, {heat}\n")
        (folder / f"{node}.csv").write_text("".join(rows))
    return perflog.read(folder)


HOT = (1275, 86)


def test_a_device_of_one_of_several_logs(tmp_path: Path) -> None:
    """Both nodes have a device 1: each is compared with itself."""
    log = job(tmp_path, {"n1": [USUAL, USUAL], "n2": [USUAL, HOT]})
    sentences = perflog.overview(log).reasons
    hot = "device 1 of n2.csv: clock 1.98 GHz -> 1.27 GHz, temperature 64 -> 86 °C"
    assert f"Since then {hot}; 3 other devices as before." in sentences
    (culprit,) = slow_members(Tables(log), Options())
    assert (culprit.gpu, culprit.node, culprit.kind, culprit.certainty) == (1, None, "throttling", "likely")
    assert culprit.evidence == (
        "n2.csv: clock 1.98 GHz -> 1.27 GHz since step 40",
        "n2.csv: temperature 64 °C -> 86 °C since step 40",
    )


@pytest.mark.parametrize(
    ("reading", "lower", "hotter"),
    [
        (HOT, True, True),
        ((1275, 64), True, False),  # idle, or capped: nobody is accused
        ((1275, 68), True, False),
        ((1275, 69), True, True),
        ((1900, 86), False, True),
        (USUAL, False, False),
    ],
)
def test_a_device_of_the_only_log(tmp_path: Path, reading: Reading, lower: bool, hotter: bool) -> None:
    log = job(tmp_path, {"gpu": [USUAL, reading]})
    tables = Tables(log)
    (run,) = tables.counts("steps")
    usual, other = device_clocks(tables, run, 1, 40, None)
    assert (usual.number, usual.node, usual.log, usual.is_lower, usual.is_hotter) == (0, "", "", False, False)
    assert (other.number, other.is_lower, other.is_hotter) == (1, lower, hotter)
    assert [each.gpu for each in slow_members(tables, Options())] == [1] * (lower and hotter)
    assert any(text.startswith("Since then device 1: clock") for text in perflog.overview(log).reasons) is lower
    assert device_clocks(tables, run, 1, 81, None) == device_clocks(tables, run, 90, 40, None) == []  # no such steps
    assert device_clocks(tables, "other", 1, 40, None) == []


def test_a_device_without_work_is_no_culprit(tmp_path: Path) -> None:
    """It is a little warmer by its neighbours, and its clock is that of an idle device."""
    job(tmp_path, {"gpu": [USUAL, (345, 66)]})
    rows = (tmp_path / "gpu.csv").read_text().splitlines()
    loads = [", utilization.gpu [%]", *(", 0 %" if " 345 MHz" in row else ", 98 %" for row in rows[1:])]
    (tmp_path / "gpu.csv").write_text("\n".join(map("".join, zip(rows, loads, strict=True))) + "\n")
    log = perflog.read(tmp_path)
    assert slow_members(Tables(log), Options()) == []
    idle = "device 1: clock 1.98 GHz -> 345 MHz, temperature 64 -> 66 °C, 98 -> 0 % busy"
    assert f"Since then {idle}; 1 other device as before." in perflog.overview(log).reasons


def test_only_the_time_between_two_levels_counts(tmp_path: Path) -> None:
    tables = Tables(job(tmp_path, {"gpu": [HOT]}))
    (run,) = tables.counts("steps")
    (before,) = device_clocks(tables, run, 1, 20, 38)
    assert before.clocks == (1.98e9, 1.98e9)
    (after,) = device_clocks(tables, run, 45, 60, None)
    assert after.clocks == (1.275e9, 1.275e9) and after.temperatures == (86.0, 86.0)


def test_without_telemetry(tmp_path: Path) -> None:
    tables = Tables(job(tmp_path, {}))
    (run,) = tables.counts("steps")
    assert device_clocks(tables, run, 1, 40, None) == []
