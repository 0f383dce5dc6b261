"""Devices unlike the others, whose telemetry is in a log beside the log of their job."""

from __future__ import annotations

from pathlib import Path

import perflog
from perflog.analysis.diagnosis import diagnose
from perflog.analysis.overview import overview


def test_a_hot_gpu_in_the_log_of_nvidia_smi_beside_the_job(tmp_path: Path) -> None:
    steps = (
        f"2026-01-02 10:00:{n:02d},000 INFO step: {n} | loss: {9 / n:.4f} | step_time: 1.0 s" for n in range(1, 31)
    )
    (tmp_path / "train.log").write_text("\n".join(steps) + "\n")
    rows = {gpu: "449.00 W, 88, 1200 MHz" if gpu == 3 else f"62{gpu}.00 W, 60, 1755 MHz" for gpu in range(8)}
    samples = [f"2026/01/02 10:00:{n:02d}.000, {gpu}, {row}" for n in range(0, 31, 3) for gpu, row in rows.items()]
    header = "timestamp, index, power.draw [W], temperature.gpu, clocks.sm [MHz]"
    (tmp_path / "nvidia-smi.csv").write_text("\n".join([header, *samples]) + "\n")
    log = perflog.read(tmp_path)
    answer = overview(log)
    assert len(answer.groups) == 1
    (words,) = (text for text in answer.reasons if text.startswith("nvidia-smi.csv: device 3 of 8 differs"))
    assert "clock 1.2 GHz instead of 1.75 GHz" in words
    assert [culprit.name for culprit in diagnose(log).culprits] == ["GPU 3"]
