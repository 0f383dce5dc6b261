"""What of the trainer needs no torch: recipes, lines, and the errors a user meets first."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
from support.paths import ROOT
from support.trainer_ranks import ENVIRONMENT

from perflog.errors import InputError, UsageError
from perflog.formats.registry import get
from perflog.metrics.semantics import evaluate
from perflog.trainer import __main__ as trainer
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.recipes import ModelSizes, RunSpec, check_sizes, load_recipe, recipe_names

RECIPES = recipe_names()
SAID: dict[str, dict[str, int | str]] = {
    "setup": {"world_size": 2, "device": "cpu", "dtype": "float32", "seed": 0, "steps": 3, "warmup_steps": 1},
    "model": {
        "model": "tiny", "layers": 2, "model_dim": 8, "hidden_size": 16, "heads": 2, "head_dim": 4, "vocabulary": 11,
        "matmul_parameters": 1000,
    },
    "batch": {"tokens_per_rank": 64, "sequence_length": 32, "data_ranks": 2, "stages": 1, "micro_batches": 1},
}  # fmt: skip


def specs(name: str, preset: str = "default", scale: float = 1.0, steps: int | None = None) -> list[RunSpec]:
    return list(load_recipe(name).specs(preset, steps=steps, seed=0, dtype=None, scale=scale))


# --- recipes --------------------------------------------------------------------------------------------------------


def test_there_is_a_recipe_for_every_kind_of_log() -> None:
    assert RECIPES == ["kernels", "moe-layer", "pipeline", "sweep"]
    assert {load_recipe(name).like for name in RECIPES} == {"nvprof", "moe_layer", "pipeline_layers", "training_sweep"}
    assert all(get(load_recipe(name).like) for name in RECIPES)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_preset_fits_on_its_ranks_and_on_one(name: str, preset: str) -> None:
    chosen = load_recipe(name)
    for spec in specs(name, preset):
        for ranks in (1, chosen.ranks(preset)):
            check_sizes(spec, ranks, chosen.program)
        assert 0 < spec.warmup_steps < spec.steps
        assert spec.sizes.head_dim * spec.sizes.heads == spec.sizes.model_dim


def test_paper_sizes_are_those_of_the_bundled_logs() -> None:
    layer = specs("moe-layer", "paper")[0].sizes
    assert (layer.tokens, layer.model_dim, layer.hidden_size, layer.experts_per_rank, layer.top_k) == (
        8192,
        1024,
        4096,
        8,
        2,
    )
    llama = specs("pipeline", "paper")[0].sizes
    assert (llama.layers, llama.model_dim, llama.micro_batches, llama.vocabulary) == (16, 2048, 32, 128256)
    assert [j.variant for j in specs("sweep", "paper")][:4] == [
        "gpt2/dense",
        "gpt2/padded",
        "gpt2/dropless",
        "bert/dense",
    ]
    assert {j.steps for j in specs("sweep", "paper")} == {100}


@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 2.0, 3.3])
@pytest.mark.parametrize("name", RECIPES)
def test_a_scaled_recipe_still_fits(name: str, scale: float) -> None:
    for spec, plain in zip(specs(name, scale=scale), specs(name), strict=True):
        check_sizes(spec, 2, load_recipe(name).program)
        assert spec.sizes.head_dim == plain.sizes.head_dim
        if scale == 2.0:
            assert spec.sizes.model_dim == 2 * plain.sizes.model_dim


def test_few_steps_leave_half_of_them_behind_the_warm_up() -> None:
    assert [(j.steps, j.warmup_steps) for j in specs("pipeline", steps=2)] == [(2, 1)]
    assert [(j.steps, j.warmup_steps) for j in specs("pipeline", steps=1)] == [(1, 0)]


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean `moe-layer`"):
        load_recipe("moelayer")
    with pytest.raises(UsageError, match="did you mean `paper`"):
        specs("sweep", "papers")


WRONG = [
    ({"heads": 3}, 1, "language", "3 heads do not divide width 64"),
    ({"heads": 4, "kv_heads": 3}, 1, "pipeline", "3 heads of keys and values do not divide 4 heads"),
    ({"top_k": 3}, 2, "language", "the 3 best of 2 experts"),
    ({"experts_per_rank": 0}, 2, "language", "without experts"),
    ({"micro_batches": 8}, 5, "pipeline", "5 stages, but 4 layers"),
    ({"micro_batches": 2}, 3, "pipeline", "3 stages, but 2 micro-batches"),
]


@pytest.mark.parametrize(("change", "ranks", "program", "reason"), WRONG, ids=[row[3] for row in WRONG])
def test_sizes_that_do_not_fit_are_one_error(change: dict[str, int], ranks: int, program: str, reason: str) -> None:
    sizes: dict[str, Any] = {
        "layers": 2, "model_dim": 64, "hidden_size": 8, "heads": 2, "vocabulary": 9, "sequence_length": 4, "batch": 1,
        "learning_rate": 0.1, "experts_per_rank": 1,
    }  # fmt: skip
    spec = RunSpec("r", "v", "m", "padded", 1, 1, ModelSizes(**(sizes | change)), 1, 0, "float32", 0)
    with pytest.raises(UsageError, match=reason):
        check_sizes(spec, ranks, program)


# --- lines ----------------------------------------------------------------------------------------------------------


def written(rank: int = 0) -> tuple[LogWriter, int]:
    end, start = os.pipe()
    lines = LogWriter("reference", rank, start)
    for name, values in SAID.items():
        lines.write_once(name, **values)
    return lines, end


def test_values_leave_in_the_unit_of_the_line_and_the_rate_is_the_checked_one() -> None:
    lines, end = written()
    os.read(end, 1 << 16)
    values: dict[str, Any] = {
        "rank": 0,
        "step": 4,
        "forward": 0.01,
        "backward": 0.015,
        "loss": 2.5,
        "memory": 1024,
        "_": ", warm-up",
    }
    printed = lines.write("step", step_time=0.0300001234567, tokens_per_s=4266.6, **values)
    text = os.read(end, 1 << 16).decode()
    assert text.startswith(
        "[rank 0] step 4: time 30.000123 ms, forward 10.000000 ms, backward 15.000000 ms, loss 2.500000, "
    )
    assert text.endswith(" TFLOP/s per rank, 4266.6 tok/s, peak memory 1024 B, warm-up\n")
    # palm: (6 N + 12 layers heads head_dim sequence) tokens / ranks / time, of the time as printed
    work = (6 * 1000 + 12 * 2 * 2 * 4 * 32) * 64 * 2 / 2
    assert printed["tflops"] == pytest.approx(work / 30.000123e-3 / 1e12, abs=5e-7)


def test_what_all_ranks_say_is_printed_by_the_first_alone_and_known_to_all() -> None:
    lines, end = written(rank=1)
    lines.write("pipeline_step", rank=1, step=0, step_time=1e-6, loss=1.0, tokens_per_s=1.0, memory=1, _="")
    text = os.read(end, 1 << 16).decode()
    assert text.startswith("[rank 1] step 0: time 0.001000 ms, loss 1.000000, 0.777216 TFLOP/s per rank")


def test_phases_are_printed_where_all_of_a_line_are_measured() -> None:
    lines, end = written(rank=1)
    lines.write_phases(
        7, {"data": 1e-3, "forward": 2e-3, "backward": 3e-3, "optimizer": 4e-3, "elapsed": 1e-2, "gate": 1.0}
    )
    text = os.read(end, 1 << 16).decode()
    assert text == (
        "[rank 1] step 7: data 1.000000 ms, forward 2.000000 ms, backward 3.000000 ms, optimizer 4.000000 ms\n"
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_error() -> None:
    file = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(InputError, match="the log cannot be written: No space left"):
        LogWriter("reference", 0, file).write("end", place=1, places=1)
    os.close(file)


def test_every_phase_that_is_printed_is_declared() -> None:
    form = get("reference")
    printed = {n for line in form.lines if line.table == "phases" for n in line.template.names} - {"rank", "step"}
    assert printed == {phase.name for phase in form.phases}
    assert {p.of for p in form.phases} == {("step",), ("forward",), ("backward",), ("schedule",)}


def test_the_work_counts_shared_experts_and_logs_before_them_have_none() -> None:
    said = {"tokens_per_rank": 8, "top_k": 2, "model_dim": 4, "hidden_size": 16, "layers": 3}
    (rate,) = (rate for rate in get("reference").rates if rate.name == "experts in the whole step")
    now, before = (evaluate(work, said | {"shared_experts": 1, "expert_matrices": 2}) for work in rate.work)
    assert now == 1.5 * 12 * 8 * 2 * 4 * 16 * 3 == 1.5 * (before or 0)
    assert [evaluate(work, said) for work in rate.work] == [None, before]


# --- the command ----------------------------------------------------------------------------------------------------


def told(*arguments: str, first: str = "pass", **environment: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the trainer as one process."""
    code = f"import sys, perflog.trainer.__main__ as m; {first}; sys.argv[1:] = {list(arguments)!r}; sys.exit(m.main())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT | environment, cwd=ROOT, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def test_without_torch_the_extra_is_named() -> None:
    assert told("moe-layer", first="m.find_spec = lambda name: None") == (
        3,
        "",
        "perflog: the trainer needs PyTorch, which is not installed\npip install torch\n",
    )


COMMANDS = [
    (("moe-layr",), "there is no recipe `moe-layr`\ndid you mean `moe-layer`?\n"),
    (("kernels", "--dialect", "original"), "recipe kernels has no original dialect\nleave out --dialect\n"),
    (("sweep", "--output", "t.json"), "recipe sweep writes no trace\nleave out --output, or take recipe kernels\n"),
    (("pipeline", "--preset", "papr"), "recipe pipeline has no preset `papr`\ndid you mean `paper`?\n"),
    (("moe-layer", "--set", "topk=1"), "cannot set `topk=1`\ndid you mean `top_k`?\n"),
    (
        ("moe-layer", "--set", "bias_rate=-1"),
        "cannot set bias_rate=-1: Expected `float` >= 0.0 - at `$.bias_rate`\n",
    ),
    (
        ("moe-layer", "--dialect", "original", "--set", "activation=swiglu"),
        "the original's rate counts chosen experts of two matrices\nleave out --dialect\n",
    ),
    (("sweep", "--steps", "0"), "Invalid value for '--steps': 0 is not in the range x>=1.\n"),
]


@pytest.mark.parametrize(("arguments", "message"), COMMANDS, ids=[" ".join(row[0]) for row in COMMANDS])
def test_wrong_usage_is_told_by_every_rank(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As each process of the trainer does it; the tests around this one start some."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["trainer", *arguments])
    monkeypatch.delenv("RANK", raising=False)
    assert (trainer.main(), *capfd.readouterr()) == (2, "", f"perflog: {message}")
    monkeypatch.setenv("RANK", "1")
    assert (trainer.main(), *capfd.readouterr()) == (2, "", f"perflog: [rank 1] {message}")


def test_more_stages_than_layers_are_told_before_anything_starts() -> None:
    code, _, error = told("pipeline", WORLD_SIZE="7", RANK="0")
    assert (code, error) == (
        2,
        "perflog: [rank 0] pipeline dense: 7 stages, but 6 layers with embedding and head: take fewer ranks\n",
    )


def test_the_command_line_of_perflog_and_recipes_do_not_load_torch() -> None:
    code = (
        "import sys, perflog.cli, perflog.trainer.log_writer, perflog.trainer.recipes; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, cwd=ROOT).returncode == 0
    assert find_spec("perflog.trainer") is not None
