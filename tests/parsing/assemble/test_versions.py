"""Versions among the settings keep the text that the log prints: 2.10 is not 2.1."""

from __future__ import annotations

import json
from pathlib import Path

import perflog

STAMP = '"timestamp": "1587450966.2", "datetime": "2020-04-21 06:36:06.2", "type": "LOG", "elapsedtime": "0.1"'


def test_a_version_in_json(tmp_path: Path) -> None:
    settings = '{"torch_version": "2.10", "cuda_version": 12.0, "version_3": 3, "lr": "0.10", "conversion": "0.10"}'
    head = f'DLLL {{{STAMP}, "step": "PARAMETER", "data": {settings}}}\n'
    steps = (f'DLLL {{{STAMP}, "step": [0, {k}], "data": {{"loss": 1.{k}}}}}\n' for k in range(3))
    (tmp_path / "run.json").write_text(head + "".join(steps))
    (config,) = perflog.read(tmp_path / "run.json").arrow("runs")["config"].to_pylist()
    found = json.loads(config)
    assert {name: found[name] for name in json.loads(settings)} == {
        "torch_version": "2.10", "cuda_version": "12.0", "version_3": 3, "lr": 0.1, "conversion": 0.1,
    }  # fmt: skip


def test_a_version_in_lines_of_names_and_values(tmp_path: Path) -> None:
    text = "  torch_version ...................... 2.10\n  lr ......................... 0.10\n"
    head = "------------------------ arguments ------------------------\n"
    steps = "".join(
        f" iteration        {k}/      10 | consumed samples:           {k} | elapsed time per iteration (ms): 10.5 | "
        "learning rate: 1.000E-04 | global batch size:     8 | lm loss: 1.000000E+00 |\n"
        for k in range(1, 4)
    )
    (tmp_path / "run.log").write_text(
        head + text + "-------------------- end of arguments ---------------------\n" + steps
    )
    (config,) = perflog.read(tmp_path / "run.log").arrow("runs")["config"].to_pylist()
    found = json.loads(config)
    assert (found["torch_version"], found["lr"]) == ("2.10", 0.1)
