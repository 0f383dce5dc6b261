"""Other devices, numbers of ranks and models: no regression, unless the reader asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.trace_tables import by_hand, kernel, log, step

import perflog
from perflog.analysis.compare import Gate, failures
from perflog.metrics.hardware import are_other_devices
from perflog.output.presenters.compare_screen import screen

A100, V100 = "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB"


def trace(name: str, micros: int, **settings: Any) -> perflog.Log:
    """Twelve steps of about so long, 90 % of them one kernel."""
    events = []
    for k in range(12):
        at = k * 10_000_000
        events += [step(k, at, at + micros * 1000 + 100 * (k % 3)), kernel(at, at + micros * 900, "gemm")]
    return log(by_hand(events, **settings), name)


def test_other_hardware_is_no_regression() -> None:
    base, side = trace("base", 1000, device=A100, world_size=8), trace("side", 1600, device=V100, world_size=2)
    compared = perflog.compare(base, side, draws=200)
    assert compared.verdict == "not the same setting"
    assert [(e.setting, e.base_value, e.side_value) for e in compared.other_settings] == [
        ("device", A100, V100), ("world_size", "8", "2"),
    ]  # fmt: skip
    assert {row.verdict.removeprefix("exploratory ") for row in compared.row_records} <= {
        "different", "equivalent", "inconclusive", "not comparable",
    }  # fmt: skip
    assert compared.headlines[0].change == pytest.approx(0.6, rel=0.01)  # the figures stand all the same
    told = f"device {A100} and {V100}, world_size 8 and 2"
    assert compared.conclusion == f"not the same setting: {told}; step_time +60.0 %"
    lines = " ".join(" ".join(screen(compared, ["base", "side"])).split())
    assert lines.startswith(
        f"Not the same setting: {told} (--ignore device --ignore world_size judges the change anyway)."
    )
    assert "regression" not in lines and "+60.0 % step time" in lines
    assert [each.kind for each in failures(compared, [Gate()])] == ["cannot judge"]


A100_PCIE, H100 = "NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3"


def smi_table(gpu: str, driver: str = "580.159.04") -> str:
    return (
        f"| NVIDIA-SMI {driver:<18}     Driver Version: {driver:<10}     CUDA Version: 13.0     |\n"
        f"|   0  {gpu:<28}  On  |   00000000:8D:00.0 Off |                    0 |\n"
        "| N/A   54C    P0            147W /  700W |    1521MiB /  81559MiB |      0%      Default |\n"
    )


def smi_list(gpu: str) -> str:
    return "".join(f"GPU {k}: {gpu} (UUID: GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e5{k})\n" for k in range(8))


@pytest.mark.parametrize(
    ("setting", "base", "side"),
    [
        ("gpu_name", smi_table(A100_PCIE), smi_table(H100)),
        ("gpu_name", smi_list(A100_PCIE), smi_list(H100)),
        ("driver_version", smi_table(H100), smi_table(H100, "590.44.01")),
    ],
)
def test_a_machine_that_a_monitor_names(tmp_path: Path, setting: str, base: str, side: str) -> None:
    """nvidia-smi prints its GPUs and their driver before the program, which prints neither."""
    for name, frame, time in (("base", base, 500), ("side", side, 900)):
        steps = (
            f" iteration {k:8d}/      12 | elapsed time per iteration (ms): {time + k % 3}.0 | lm loss: 5.0E+00 |\n"
            for k in range(1, 13)
        )
        (tmp_path / name).write_text(frame + "".join(steps))
    compared = perflog.compare(str(tmp_path / "base"), str(tmp_path / "side"), draws=200)
    assert compared.verdict == "not the same setting"
    assert [each.setting for each in compared.other_settings] == [setting]
    (failure,) = failures(compared, [Gate()])
    assert failure.kind == "cannot judge" and f"--ignore {setting}" in failure.message


@pytest.mark.parametrize("asked", [{"ignore": ["device", "world_size"]}, {"by": ["device", "world_size"]}])
def test_the_reader_may_ask(asked: dict[str, Any]) -> None:
    base, side = trace("base", 1000, device=A100, world_size=8), trace("side", 1600, device=V100, world_size=2)
    compared = perflog.compare(base, side, draws=200, **asked)
    assert (compared.verdict, compared.other_settings) == ("exploratory regression", ())
    assert {each.kind for each in failures(compared, [Gate()])} == {"change"}


def test_what_one_log_does_not_say_is_no_difference() -> None:
    compared = perflog.compare(trace("base", 1000, device=A100), trace("side", 1600, model="gpt"), draws=200)
    assert (compared.verdict, compared.other_settings) == ("exploratory regression", ())


def test_no_side_is_best_where_settings_differ() -> None:
    devices = {"a": A100, "v": V100, "h": "NVIDIA H100 80GB HBM3"}
    logs = [trace(name, 1000 + 100 * k, device=device) for k, (name, device) in enumerate(devices.items())]
    assert perflog.compare(*logs, draws=200).best == ()
    assert perflog.compare(*logs, draws=200, ignore=["device"]).best[0].side == "a"


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("A100", A100, False), (A100, "a100 sxm4 80gb", False), (A100, "NVIDIA A100-SXM4-40GB", True),
        ("V100", "V100S", True), ("cuda:0", "cuda:3", False), ("cuda", A100, False), ("cpu", "cuda:0", True),
        ("AMD Instinct MI300X", "MI300X", False), ("MI300X", "MI325X", True), ("cpu", "CPU", False),
    ],
)  # fmt: skip
def test_names_of_devices(one: str, other: str, differ: bool) -> None:
    assert are_other_devices(one, other) is differ is are_other_devices(other, one)
