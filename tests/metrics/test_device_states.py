"""States of devices: a row for each, its limits, and what holds it back."""

from __future__ import annotations

from pathlib import Path

import perflog
from perflog.analysis.overview import overview
from perflog.metrics import Tables
from perflog.metrics.power.device_states import DeviceState, device_states


def states(folder: Path, text: str) -> list[DeviceState]:
    (folder / "smi.txt").write_text(text)
    log = perflog.read(folder / "smi.txt")
    return device_states(Tables(log), log.run_keys[0].id)


def test_each_device_has_its_own_means(tmp_path: Path) -> None:
    text = """\
# gpu   pwr gtemp    sm  pclk pviol    fb
# Idx     W     C     %   MHz     %    MB
    0   680    64    99  1410    30 78123
    1   350    58    98  1980     0     3
    0   690    66    97  1390    50 78123
    1     -    58   100  1980     0     3
"""
    first, second = states(tmp_path, text)
    assert (first.device, first.samples, first.throttled) == (0, 2, {"power limit": 0.4})
    assert first.values == {
        "power": 685, "temperature": 65, "utilisation": 0.98, "clock": 1.4e9, "memory": 78123 * 2**20,
    }  # fmt: skip
    assert (second.values["power"], second.values["utilisation"], second.throttled) == (350, 0.99, {})


def test_active_reasons_are_those_that_hold_a_device_back(tmp_path: Path) -> None:
    text = """\
index, power.draw [W], temperature.gpu, memory.used [MiB], memory.total [MiB], clocks_throttle_reasons.active
0, 687.12 W, 64, 100 MiB, 200 MiB, 0x0000000000000004
1, 71.00 W, 31, 3 MiB, 200 MiB, 0x0000000000000001
0, 689.00 W, 66, 100 MiB, 200 MiB, 0x0000000000000000
1, 71.00 W, 31, 3 MiB, 200 MiB, 0x0000000000000001
"""
    first, second = states(tmp_path, text)
    assert (first.throttled, second.throttled) == ({"power limit": 0.5}, {})  # idle holds nothing back
    assert (first.units["temperature"], first.limits) == ("°C", {"memory": 200 * 2**20})


def test_the_screen_has_a_line_for_each_gpu(tmp_path: Path) -> None:
    rows = "".join(f"  {gpu}  {500 + gpu} W   {60 + gpu} °C   99 %\n" for gpu in range(10))
    (tmp_path / "amd.txt").write_text(f"GPU  POWER   GPU_T   GFX%\n{rows}")
    answer = overview(perflog.read(tmp_path / "amd.txt"))
    assert [answer.reasons[number] for number in (0, 7, 8)] == [
        "Device 0: 500 W, 60 °C, 99 % busy.", "Device 7: 507 W, 67 °C, 99 % busy.", "2 more devices.",
    ]  # fmt: skip
    texts = {figure.name: figure.text_of(answer.groups[0].runs[0], 3) for figure in answer.figures}
    assert (texts["temperature"], texts["gpu_utilization"]) == ("60 °C to 69 °C", "99 %")
