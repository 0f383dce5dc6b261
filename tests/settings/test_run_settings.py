"""Which settings say what a run computed, which are incidental, and which distinguish runs."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.settings import run_settings
from perflog.settings.run_settings import (
    incidental_test,
    independent,
    is_incidental,
    is_of_machine,
    names_machine,
    outcomes_of,
    settings_of,
    telling_settings,
    values_in_order,
    varying,
)


@pytest.mark.parametrize(
    "name",
    ["seed", "SEED", "random_seed", "pid", "started", "master_addr", "masterPort", "host", "save", "load", "data_path",
     "tensorboard_dir", "wandb_project", "git_sha", "commit", "config.trainer.seed", "run_name", "job_id", "hostnames"],
)  # fmt: skip
def test_names_of_incidental_settings(name: str) -> None:
    assert is_incidental(name, ["1", "2"])


@pytest.mark.parametrize(
    "name",
    ["num_nodes", "nodes", "save_interval", "timeout", "hidden_size", "model", "dtype", "world_size", "device",
     "micro_batch_size", "support", "update_freq", "num_seeded_experts"],
)  # fmt: skip
def test_names_of_settings_that_say_what_was_computed(name: str) -> None:
    assert not is_incidental(name, ["1", "2"])


@pytest.mark.parametrize(
    "value",
    ["2024-06-01", "2024-06-01 10:00:00.5", "/data/run-1/out", "~/logs", "s3://bucket/x", "C:\\logs\\1", "9f8a28e01c",
     "123e4567-e89b-12d3-a456-426614174000", "10.0.0.7", "10.0.0.7:29500", "node-3:29500", "dump/dev/data.json",
     "<function f at 0x7f12ab>"],
)  # fmt: skip
def test_values_of_incidental_settings(value: str) -> None:
    assert is_incidental("setting", [value, value, None])
    assert not is_incidental("setting", [value, "float16"])  # one of them says what was computed


@pytest.mark.parametrize(
    "value", ["float16", "1234567", "0.0004", "a100", "cuda:0", "true", "llama2_70b", "deadbeef", "facebook/opt-1.3b"]
)
def test_values_that_say_what_was_computed(value: str) -> None:
    assert not is_incidental("setting", [value])


def test_a_format_declares_incidental_settings() -> None:
    assert is_incidental("model.revision", ["1"], ["model.rev*"])


def test_a_declared_pattern_is_of_the_whole_name_with_its_case() -> None:
    assert not is_incidental("revision", ["1"], ["model.rev*"])
    assert not is_incidental("Model.revision", ["1"], ["model.rev*"])


def test_values_that_no_run_has_say_nothing() -> None:
    assert not is_incidental("setting", [None, None])
    assert not is_incidental("setting", [])


@pytest.mark.parametrize(
    ("name", "names", "describes"),
    [
        ("host", True, True), ("env.HOSTNAME", True, True), ("host.os_name", False, True), ("gpu_name", False, True),
        ("driverVersion", False, True), ("runner.speed", False, True), ("speed.runner_up", False, True),
        ("num_gpu", False, False), ("batch_size_per_device", False, False), ("gpu_memory_utilization", False, False),
        ("learning_rate", False, False), ("mygpu", False, False), ("hosting.speed", False, False),
    ],
)  # fmt: skip
def test_settings_of_the_machine(name: str, names: bool, describes: bool) -> None:
    assert (names_machine(name), is_of_machine(name)) == (names, describes)


def test_settings_vary_if_two_runs_differ_or_one_lacks_them() -> None:
    assert varying([{"b": "1", "a": "2"}, {"a": "3", "b": "1"}, {"a": "3", "b": "1", "c": "4"}]) == ["a", "c"]
    assert varying([{"a": "1"}]) == varying([]) == []


def test_formats_declare_incidental_settings_of_their_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_settings, "formats", lambda: {"own": SimpleNamespace(incidental=("n*",))})
    assert incidental_test([{"format": "own"}, {"format": "unknown"}, {}])("name_of")
    assert not incidental_test([{"format": "unknown"}, {}])("name_of")


def test_a_setting_is_incidental_by_its_values_in_all_runs() -> None:
    assert incidental_test(iter([{"x": "/a"}, {"x": "/b"}, {}]))("x")
    assert not incidental_test([{"x": "/a"}, {"x": "b"}])("x")


def test_settings_that_follow_from_others_distinguish_nothing() -> None:
    """Of 8 ranks data parallelism follows from the two others."""
    runs = [
        {"seed": str(tp * pp), "dp": str(8 // tp // pp), "tp": str(tp), "pp": str(pp), "same": "1"}
        for tp in (1, 2) for pp in (1, 2)
    ]  # fmt: skip
    assert telling_settings(runs) == ["tp", "pp"]
    assert telling_settings(runs[:1]) == telling_settings([]) == []
    # one that follows from a later one alone is not needed
    pairs = [{"a": "1", "b": "1"}, {"a": "2", "b": "2"}]
    assert independent(pairs, ["a", "b"]) == ["a"]
    assert independent(pairs, ["b", "a"]) == ["b"]


def test_a_setting_that_two_later_ones_replace_is_not_needed() -> None:
    """It has the fewest values, but `b` and `c` distinguish all runs without it."""
    runs = [dict(zip("abc", values, strict=True)) for values in ("000", "101", "110", "011", "022", "002")]
    assert independent(runs, ["a", "b", "c"]) == ["b", "c"]


@pytest.mark.parametrize(
    ("values", "ordered"),
    [
        (["16", "2", "1e1", "-1"], ["-1", "2", "1e1", "16"]),
        (["b", "16", "2"], ["b", "16", "2"]),
        ([], []),
    ],
)  # fmt: skip
def test_values_are_in_the_order_of_their_numbers(values: list[str], ordered: list[str]) -> None:
    assert values_in_order(iter(values)) == ordered


ROW: dict[str, Any] = {
    "format": "megatron", "program": None, "model": "gpt", "world_size": 8, "device": None, "dtype": "bf16",
    "process": None, "config": None,
}  # fmt: skip


def test_settings_of_a_row_are_strings_without_what_is_unknown() -> None:
    known = {"format": "megatron", "model": "gpt", "world_size": "8", "dtype": "bf16"}
    assert settings_of(ROW) == known
    config = '{"a": [3], "b": [1, 2], "c": {"d": "x", "e": null}, "f": null, "g": [["y"]], "h": true}'
    assert settings_of(ROW | {"config": config}) == known | {
        "a": "3", "b": "[1, 2]", "c.d": "x", "c.e": "null", "g": "y", "h": "true"
    }  # fmt: skip


def test_what_a_log_prints_takes_precedence_over_its_provenance() -> None:
    row = ROW | {"config": '{"branch": "printed"}', "provenance": '{"branch": "of the job", "commit": "1"}'}
    settings = settings_of(row)
    assert (settings["branch"], settings["commit"], settings["format"]) == ("printed", "1", "megatron")


def test_outcomes_are_no_settings() -> None:
    row = ROW | {"config": '{"lr": 1, "samples": 5}', "outcomes": '["samples", "missing"]'}
    assert outcomes_of(row) == ["samples", "missing"]
    assert outcomes_of(ROW) == outcomes_of(ROW | {"outcomes": None}) == []
    assert settings_of(row)["lr"] == "1" and "samples" not in settings_of(row)
    # of the provenance nothing came of the training
    assert settings_of(row | {"provenance": '{"samples": "7"}'})["samples"] == "7"


ESPNET = (
    "Namespace(accum_grad=2, config='conf/train.yaml', elayers={layers}, outdir='exp/{seed}/results', "
    "seed={seed}, train_json='dump/{seed}.json', ctc_type='builtin')"
)
SIMPLE = "namespace(lr=0.1, layers={layers}, out=PosixPath('/tmp/{seed}'), hook=<function f at 0x7f{seed}a2b>)"
JSON_TEXT = '{{"optimizer": {{"name": "adam", "lr": 0.001}}, "layers": {layers}, "seed": {seed}}}'
BERT = 'BertConfig {{\n  "hidden_size": 768,\n  "num_hidden_layers": {layers},\n  "save_path": "/ckpt/{seed}"\n}}\n'
COMMAND = "python train.py --layers {layers} --seed={seed} --save /out/{seed} --fp16"


@pytest.mark.parametrize("form", [ESPNET, SIMPLE, JSON_TEXT, BERT, COMMAND])
def test_of_a_setting_of_several_members_those_that_matter_distinguish_runs(form: str) -> None:
    """Seeds and paths inside it do not."""
    runs = [settings_of(ROW | {"config": json.dumps({"args": form.format(layers=4, seed=k)})}) for k in (1, 2, 3)]
    assert varying(runs) and telling_settings(runs) == []
    other = settings_of(ROW | {"config": json.dumps({"args": form.format(layers=8, seed=3)})})
    (name,) = telling_settings([*runs, other])
    assert name.endswith("layers")
