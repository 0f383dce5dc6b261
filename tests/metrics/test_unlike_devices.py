"""Devices with telemetry unlike that of the others: which, in what, and where nothing shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.analysis.slow_members import slow_members
from perflog.metrics import Options
from perflog.metrics.power.telemetry import device_samples
from perflog.metrics.power.unlike_devices import unlike_devices
from perflog.metrics.run_tables import Tables

HEADER = "timestamp, index, power.draw [W], clocks.current.sm [MHz], temperature.gpu\n"
Reading = tuple[int, int, int]  # W, MHz, °C
USUAL: Reading = (650, 1980, 66)


def telemetry(path: Path, *devices: Reading) -> perflog.Log:
    """Samples of devices 0, 1, ... over two minutes, which scatter by 1 %."""
    lines = [
        f"2026/11/30 09:{n // 12:02d}:{n % 12 * 5:02d}.000, {gpu}, {power + (n + gpu) % 6} W, "
        f"{clock + 15 * (n % 2)} MHz, {heat}\n"
        for n in range(24)
        for gpu, (power, clock, heat) in enumerate(devices)
    ]
    path.write_text(HEADER + "".join(lines))
    return perflog.read(path)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ((480, 1300, 87), ["clock", "temperature", "power"]),
        ((650, 1750, 66), ["clock"]),  # capped
        ((650, 1980, 72), []),  # in the warmer place of its node
        ((640, 1965, 66), []),
    ],
)
def test_a_device_that_is_unlike_the_others(other: Reading, found: list[str], tmp_path: Path) -> None:
    devices = unlike_devices(Tables(telemetry(tmp_path / "gpu.csv", USUAL, USUAL, other, USUAL)))
    assert [(each.device, each.devices, each.quantity) for each in devices] == [(2, 4, name) for name in found]


@pytest.mark.parametrize(("load", "culprits"), [(2, []), (96, [2]), (98, [2])])
def test_a_device_without_work_is_no_culprit(load: int, culprits: list[int], tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    telemetry(path, USUAL, USUAL, (90, 345, 87), USUAL)
    head, *rows = path.read_text().splitlines()
    rows = [f"{row}, {load if ', 2, ' in row else 98} %" for row in rows]
    path.write_text("\n".join([f"{head}, utilization.gpu [%]", *rows]) + "\n")
    steps = [f"2026-11-30 09:01:{n:02d} step {n} loss {9 - n / 20:.3f} step_time 1.01 s\n" for n in range(1, 9)]
    (tmp_path / "train.log").write_text("".join(steps))
    tables = Tables(perflog.read(tmp_path))
    assert {each.is_idle for each in unlike_devices(tables)} == {not culprits}
    assert [each.gpu for each in slow_members(tables, Options())] == culprits


def test_of_two_devices_nothing_shows_which_is_unlike(tmp_path: Path) -> None:
    assert not unlike_devices(Tables(telemetry(tmp_path / "gpu.csv", USUAL, (480, 1300, 87))))


def test_the_overview_names_it(tmp_path: Path) -> None:
    log = telemetry(tmp_path / "gpu.csv", USUAL, USUAL, (480, 1305, 87), USUAL)
    *_, text = perflog.overview(log).reasons
    assert text.startswith("Device 2 of 4 differs from the others: clock 1.31 GHz instead of 1.99 GHz, ")
    assert text.endswith(", temperature 87 °C instead of 66 °C, power 482 W instead of 652 W.")


def test_devices_of_several_nodes_in_one_file(tmp_path: Path) -> None:
    """Each node has a device 0: they are six devices."""
    rows = ["timestamp, hostname, index, power.draw [W], clocks.current.sm [MHz]"]
    for second in range(40):
        for node in ("node01", "node02", "node03"):
            for index in (0, 1):
                is_hot = node == "node02" and index == 1
                place = f"2026/11/03 09:00:{second:02d}.000, {node}, {index}"
                rows.append(f"{place}, {300 if is_hot else 650 + second % 3} W, {1200 if is_hot else 1980} MHz")
    path = tmp_path / "gpus.csv"
    path.write_text("\n".join(rows) + "\n")
    log = perflog.read(path)
    (sampled,) = device_samples(Tables(log))
    assert [*sampled.devices] == [0, 1, 2, 3, 4, 5] and sampled.nodes[3] == ("node02", 1)
    found = unlike_devices(Tables(log))
    assert {(row.node, row.number, row.devices) for row in found} == {("node02", 1, 6)}
    *_, text = perflog.overview(log).reasons
    assert text.startswith("Device 1 of node02, one of 6 devices, differs from the others: clock 1.2 GHz instead of ")
