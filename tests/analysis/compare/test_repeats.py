"""What a repeat is: settings that do not part runs, settings that do, and copies of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.json_logs import json_log
from support.json_logs import steady_times as times

import perflog
from perflog.cli.main import main
from perflog.errors import InputError, UsageError
from perflog.settings.members import members
from perflog.settings.run_settings import is_incidental

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes a log of JSON lines, with settings and step times in seconds, and returns its path."""

    def log(name: str, *contents: Any) -> str:
        return json_log(tmp_path / name, *contents)

    return log


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


FAIRSEQ = (
    "Namespace(activation_fn='relu', adam_betas='(0.9, 0.98)', arch='transformer_iwslt_de_en', data='data-bin/{data}', "
    "decoder_layers=6, distributed_init_method=None, lr=[0.0005], max_tokens=4096, save_dir='checkpoints/{data}', "
    "seed={seed}, tensorboard_logdir='', update_freq=[1], path=None)"
)
ESPNET = (
    "Namespace(accum_grad=2, config='conf/train.yaml', elayers={layers}, outdir='exp/{seed}/results', "
    "seed={seed}, train_json='dump/{seed}.json', ctc_type='builtin')"
)
SIMPLE = "namespace(lr=0.1, layers={layers}, out=PosixPath('/tmp/{seed}'), hook=<function f at 0x7f{seed}a2b>)"
JSON_TEXT = '{{"optimizer": {{"name": "adam", "lr": 0.001}}, "layers": {layers}, "seed": {seed}}}'
BERT = 'BertConfig {{\n  "hidden_size": 768,\n  "num_hidden_layers": {layers},\n  "save_path": "/ckpt/{seed}"\n}}\n'
COMMAND = "python train.py --layers {layers} --seed={seed} --save /out/{seed} --fp16"


def test_members_of_a_setting() -> None:
    of = dict(members("args", FAIRSEQ.format(data="a", seed=3)))
    assert (of["args.seed"], of["args.adam_betas"], of["args.lr"]) == ("3", "(0.9, 0.98)", "[0.0005]")
    assert (of["args.save_dir"], of["args.path"], len(of)) == ("checkpoints/a", "None", 13)
    assert dict(members("c", JSON_TEXT.format(layers=4, seed=1))) == {
        "c.optimizer.name": "adam", "c.optimizer.lr": "0.001", "c.layers": "4", "c.seed": "1"
    }  # fmt: skip
    assert dict(members("c", BERT.format(layers=12, seed=1)))["c.num_hidden_layers"] == "12"
    assert dict(members("c", "TrainingArguments(\n_n_gpu=1,\nbf16=True,\n)")) == {"c._n_gpu": "1", "c.bf16": "True"}
    assert dict(members("c", "Namespace(a=1, text='x, (y', b=[1, 2")) == {
        "c.a": "1", "c.text": "x, (y", "c.b": "[1, 2"
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["float16", "Linear(in_features=4, out_features=8) -> x", "(3, 4)", "{1, 2}", "f(x)", "a=1, b=2", "", "16 GB",
     "----- start -----", "Adam (\nParameter Group 0\n    lr: 0.1\n)"],
)  # fmt: skip
def test_other_texts_stay_whole(text: str) -> None:
    assert list(members("setting", text)) == [("setting", text)]


@given(st.text("ab=:,(){}[]\"' -\\\n", max_size=40))
def test_any_text_has_members_or_stays_whole(text: str) -> None:
    assert all(name.startswith("setting") for name, _ in members("setting", text))


@pytest.mark.parametrize("form", [ESPNET, SIMPLE, JSON_TEXT, BERT, COMMAND])
def test_a_seed_inside_a_text_parts_no_repeats(write: Write, form: str) -> None:
    sides = [
        f"{side}={write(f'{side}{i}.json', times(10 * k + i), {'args': form.format(layers=4, seed=10 * k + i)})}"
        for k, side in enumerate("ab")
        for i in range(2)
    ]
    compared = perflog.compare(*sides)
    assert (compared.headlines[0].base_runs, compared.headlines[0].side_runs) == (2, 2)
    assert not len(compared.settings)
    other = write("c.json", times(77), {"args": form.format(layers=8, seed=5)})
    compared = perflog.compare(*sides[:2], f"a={other}", sides[2])
    assert compared.cases[0].name.endswith("layers=4")
    assert "c.json" in compared.warnings[0]


def test_repeats_may_differ_in_incidental_settings(write: Write) -> None:
    sides = [
        f"{side}={write(f'{side}{i}.json', times(10 * k + i), {'seed': i, 'save': f'/ckpt/{k}/{i}', 'layers': 4})}"
        for k, side in enumerate("ab")
        for i in range(3)
    ]
    compared = perflog.compare(*sides)
    row = compared.headlines[0]
    assert (row.metric, row.base_runs, row.side_runs) == ("step_time", 3, 3)
    assert [case.name for case in compared.cases] == [""]
    varied = {(row.side, row.setting): row.values for row in compared.varied_records}
    assert varied["a", "seed"] == ("0", "1", "2")
    assert {setting for _, setting in varied} == {"seed", "save"}
    assert not len(compared.settings)  # they vary anyway, so they are no difference between the sides
    shown = CliRunner().invoke(main, ["compare", *sides, "--all"]).output
    assert "inside a: seed (3 values), save (3 values)" in shown


def test_a_setting_that_matters_parts_runs_unless_it_is_ignored(write: Write) -> None:
    a = [f"a={write(f'a{i}.json', times(i), {'buckets': i})}" for i in range(2)]
    b = f"b={write('b.json', times(7), {'buckets': 0})}"
    compared = perflog.compare(*a, b)
    assert [case.name for case in compared.cases] == ["buckets=0"]
    assert any("not compared" in text and "a1.json" in text for text in compared.warnings)
    row = perflog.compare(*a, b, ignore=["buckets"]).headlines[0]
    assert (row.base_runs, row.side_runs) == (2, 1)


def test_sides_that_disagree_in_a_setting_name_it(write: Write) -> None:
    sides = [f"{side}={write(f'{side}{i}.json', times(i), {'buckets': f'{side}{i}'})}" for side in "ab" for i in (1, 2)]
    with pytest.raises(UsageError, match="no configuration in common; they are matched by buckets"):
        perflog.compare(*sides)
    assert len(perflog.compare(*sides, ignore=["buckets"]).cases) == 1
    assert CliRunner().invoke(main, ["compare", *sides, "--ignore", "buckets"]).exit_code == 0


def test_runs_match_by_an_incidental_setting_on_demand(write: Write) -> None:
    sides = [f"{s}={write(f'{s}{i}.json', times(9 * i + k), {'seed': i})}" for k, s in enumerate("ab") for i in (1, 2)]
    assert [case.name for case in perflog.compare(*sides).cases] == [""]
    assert [case.name for case in perflog.compare(*sides, match=["seed"]).cases] == ["seed=1", "seed=2"]
    with pytest.raises(UsageError, match="no run has a setting `colour`"):
        perflog.compare(*sides, match=["colour"])


def test_a_copy_and_a_beginning_of_a_run_are_no_repeats(write: Write) -> None:
    whole = times(1)
    sides = [
        f"a={write('whole.json', whole)}",
        f"a={write('copy.json', whole, {'seed': 3})}",
        f"a={write('beginning.json', whole[:25])}",
        f"a={write('other.json', times(2))}",
        f"b={write('b.json', times(3))}",
    ]
    compared = perflog.compare(*sides)
    row = compared.headlines[0]
    assert row.base_runs == 2
    assert [(each.side, each.label) for each in compared.left_out] == [("a", "copy.json#1"), ("a", "beginning.json#1")]
    reason = "a copy of whole.json#1, or of its beginning"
    assert f"a: not compared, {reason}: copy.json#1, beginning.json#1" in compared.warnings


def test_few_rounded_figures_may_be_the_same_by_chance(write: Write) -> None:
    repeats = [f"a={write(f'{seed}.json', [0.1], {'seed': seed})}" for seed in range(2)]
    row = perflog.compare(*repeats, f"b={write('b.json', times(3))}").headlines[0]
    assert row.base_runs == 2


def test_a_run_on_both_sides_is_a_finding(write: Write) -> None:
    log = write("a.json", times(1))
    codes = perflog.compare(f"a={log}", f"b={log}").findings["code"].tolist()
    assert "comparison-same-run" in codes


def test_a_folder_with_other_files_is_a_side(write: Write, tmp_path: Path) -> None:
    sides = []
    for k, side in enumerate(("base", "new")):
        folder = tmp_path / side
        folder.mkdir()
        for i in range(3):
            Path(write(f"{i}.json", times(10 * k + i))).rename(folder / f"{i}.json")
        (folder / "statistics.md").write_text("# Results\n\nThe new one is faster.\n", encoding="utf-8")
        sides.append(str(folder))
    compared = perflog.compare(*sides)
    assert {(row.base_runs, row.side_runs) for row in compared.headlines} == {(3, 3)}
    left_out = [text for text in compared.warnings if text.startswith("left out")]
    assert len(left_out) == 2 and "statistics.md" in left_out[0]
    with pytest.raises(InputError):
        perflog.read(f"{sides[0]}/statistics.md")  # named, not found in a folder
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("only words\n", encoding="utf-8")
    with pytest.raises(InputError):
        perflog.read(tmp_path / "notes")
