"""Files of settings beside logs: which are read, what is in them, and of which logs they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perflog
from perflog.analysis.overview import overview
from perflog.metrics import Tables
from perflog.metrics.settings_by_run import settings_by_run
from perflog.readers.setting_files import SETTINGS_FROM, _without_wandb, settings_in

LOG = "".join(f"step {n} | loss {9 / n:.4f} | step_time {{0}}.0{n % 7} ms\n" for n in range(1, 15))
YAML = """# of the run
model: {{}}
trainer:
  precision: 'bf16'   # not fp16
  devices: 8
  layers:
  - 1
  - "2"
  betas: [0.9, 0.95]
  strategy: !!python/tuple
  resume: null
optimizer:
  lr: {0}
"""


@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        (
            "config.yaml",
            YAML.format("3e-4"),
            {
                "trainer.precision": "bf16",
                "trainer.devices": "8",
                "trainer.layers": "1, 2",
                "trainer.betas": "0.9, 0.95",
                "optimizer.lr": "3e-4",
            },
        ),
        (  # only what is sure: no lines of a text, and nothing of groups in lists or in braces
            "config.yaml",
            ('note: |\n\n  world_size: 99\nlist:\n- name: a\n  lr: 1\n- name: b\n  lr: 2\nopt: {lr: 1,\n  wd: 2}\n'
            'dims: [1,\n  2]\ntitle: "a\n  tp: 2"\nname: "x # 3"  # y\nhosts:\n- a:80\n- \'b # c\'\nrate: *base\n'
            "seed: 1\n"),
            {"name": "x # 3", "hosts": "a:80, b # c", "seed": "1"},
        ),
        ("args.json", '{"lr": 0.1, "bf16": true, "dims": [1, 2], "x": null, "y": [{}], "n": "auto"}',
         {"lr": "0.1", "bf16": "true", "dims": "1, 2"}),
        ("job_config.toml", '[training]\nseq_len = 8192\n', {"training.seq_len": "8192"}),
        ("config.yaml", "_wandb:\n  value:\n    cli_version: 0.19\nlr:\n  desc: null\n  value: 0.1\n", {"lr": "0.1"}),
        ("config.json", "[1]", {}),
        ("config.json", "{torn", {}),
        ("config.json", json.dumps({"text": "x" * 1000}), {}),
    ],
)  # fmt: skip
def test_settings_in_a_file(name: str, text: str, settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert settings_in(str(tmp_path / name)) == settings


def settings_of(folder: Path, files: dict[str, str]) -> dict[str, dict[str, str]]:
    """Write files and return the settings in the files beside each log, by the path of the log."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    rows = perflog.read(folder).arrow("runs").to_pylist()
    return {str(Path(row["log"]).relative_to(folder)): json.loads(row["provenance"] or "{}") for row in rows}


def test_each_run_of_a_sweep_has_its_own_settings(tmp_path: Path) -> None:
    files = {f"{k}/main.log": LOG.format(k) for k in (1, 2)} | {
        f"{k}/.hydra/config.yaml": f"lr: 0.{k}\n" for k in (1, 2)
    }
    assert settings_of(tmp_path, files | {"config.json": '{"world_size": 8}'}) == {
        f"{k}/main.log": {"lr": f"0.{k}", "world_size": "8", SETTINGS_FROM: ".hydra/config.yaml, ../config.json"}
        for k in (1, 2)
    }
    log = perflog.read(tmp_path)
    assert {each["world_size"] for each in settings_by_run(Tables(log)).values()} == {"8"}
    assert len(overview(log).groups) == 2
    (tmp_path / "2/args.json").write_text('{"bs": 4}')
    sides = [perflog.read(tmp_path).select(run) for run in perflog.read(tmp_path).arrow("runs")["run"].to_pylist()]
    differing = {row.setting for row in perflog.compare(*sides).setting_records}
    assert differing == {"lr", "bs"}  # not the names of the files


def test_files_below_a_log_are_of_it_if_there_is_one_of_the_name(tmp_path: Path) -> None:
    files = {
        "train.log": LOG.format(1),
        "wandb/run/config.yaml": "lr: 0.1\n",
        "ds_config.json": '{"lr": "0.2", "mbs": 4}',
    }
    assert settings_of(tmp_path, files) == {
        "train.log": {"config.lr": "0.1", "ds_config.lr": "0.2", "mbs": "4",
                      SETTINGS_FROM: "ds_config.json, wandb/run/config.yaml"}
    }  # fmt: skip
    (tmp_path / "wandb/other").mkdir()
    (tmp_path / "wandb/other/config.yaml").write_text("lr: 0.3\n")
    (row,) = perflog.read(tmp_path).arrow("runs").to_pylist()
    assert json.loads(row["provenance"]) == {"lr": "0.2", "mbs": "4", SETTINGS_FROM: "ds_config.json"}


def test_the_overview_and_the_store_have_the_settings(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job/run.log").write_text(LOG.format(1))
    (tmp_path / "job/config.json").write_text('{"world_size": 16, "parallel": {"tp": 2}, "seed": 1}')
    words = "Settings, from config.json: world_size 16, tp 2."
    assert words in overview(perflog.read(tmp_path / "job")).reasons
    stored = perflog.ingest(tmp_path / "job", store=tmp_path / "store")
    assert len(stored) == 1
    assert words in overview(stored).reasons
    assert perflog.read(tmp_path / "job/run.log").arrow("runs")["provenance"].to_pylist() == [None]  # of a folder only


def test_settings_of_weights_and_biases_lie_in_a_group() -> None:
    known = {"_wandb.version": "1", "lr.value": "0.1", "model.value.layers": "4", "value.value": "3", "valued": "2"}
    assert _without_wandb(known) == {"lr": "0.1", "model.layers": "4", "value": "3", "valued": "2"}
    assert _without_wandb({"a.value.value": "1", "_wandb.x": "2"}) == {"a.value": "1"}
    assert _without_wandb({"lr.value": "0.1"}) == {"lr.value": "0.1"}  # of another program


def test_settings_whose_names_end_alike_have_their_whole_names(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG.format(1))
    (tmp_path / "config.json").write_text('{"lr": 0.1, "optim": {"lr": 0.2}, "model": {"dtype": "bf16"}}')
    assert "Settings, from config.json: dtype bf16, lr 0.1, optim.lr 0.2." in overview(perflog.read(tmp_path)).reasons
