"""Settings in the names of logs: what a name says, and where it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.settings.name_settings import settings_in_names


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        (("sweep/tp4_pp2_mbs1/train.log", "sweep/tp2_pp2_mbs1/train.log"), [{"name.tp": "4"}, {"name.tp": "2"}]),
        (("lr1e-4-bs32.log", "lr3.0e-4-bs32.log"), [{"name.lr": "1e-4"}, {"name.lr": "3.0e-4"}]),
        (("tp4pp1.log", "tp2pp2.log"), [{"name.tp": "4", "name.pp": "1"}, {"name.tp": "2", "name.pp": "2"}]),
        (("run_bf16_8gpus.log", "run_fp8_16gpus.log"), [
            {"name.dtype": "bf16", "name.gpus": "8"}, {"name.dtype": "fp8", "name.gpus": "16"}
        ]),
        (("bs32.log", "base.log"), [{}, {}]),  # not in all names
        (("run1.log", "run2.log"), [{}, {}]),  # a label
        (("rank0.log", "rank1.log"), [{}, {}]),
        (("dp0.log", "dp1.log"), [{}, {}]),  # numbers of parts of a job
        (("warmup0.log", "warmup10.log"), [{"name.warmup": "0"}, {"name.warmup": "10"}]),
        (("lr1e-4_bs08.log", "lr0.0001_bs16.log"), [{"name.bs": "08"}, {"name.bs": "16"}]),  # equal numbers
        (("http2/step100.log", "http3/step200.log"), [{}, {}]),
    ],
)  # fmt: skip
def test_what_names_say(names: tuple[str, str], settings: list[dict[str, str]]) -> None:
    assert list(settings_in_names(dict(zip("ab", names, strict=True))).values()) == settings


def test_a_folder_is_compared_by_the_names_of_its_logs(tmp_path: Path) -> None:
    for tp, time in ((2, 0.7), (4, 0.6)):
        folder = tmp_path / f"tp{tp}_mbs1"
        folder.mkdir()
        text = "".join(f"step {step} | loss 2.5 | step_time {time + step % 3 / 1000:.3f}s\n" for step in range(1, 30))
        (folder / "train.log").write_text(text)
    log = perflog.read(tmp_path)
    assert perflog.overview(log).differing_settings == ["name.tp"]
    compared = perflog.compare(log, by="name.tp")
    assert compared.sides == ("2", "4") and [row.setting for row in compared.setting_records] == ["name.tp"]
