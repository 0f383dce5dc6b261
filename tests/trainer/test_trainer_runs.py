"""Each recipe at a small size: its log is read without loss, and its numbers agree with each other."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from support.paths import TESTS
from support.patience import wait_until
from support.trainer_ranks import ForkedRanks

import perflog
from perflog.formats.registry import get
from perflog.trainer.recipes import load_recipe

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)

pytestmark = pytest.mark.slow

RANKS = 2
RECIPES = ["moe-layer", "sweep", "kernels", "pipeline"]
ORIGINAL = ["moe-layer", "sweep", "pipeline"]
STEPS = {"moe-layer": 12, "sweep": 4, "kernels": 4, "pipeline": 8}
FOLDER = Path(mkdtemp(prefix="perflog-trainer-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
TRACE = FOLDER / "trace.json"
TOP = {"data", "forward", "backward", "optimizer", "schedule"}
INSIDE = ["attention", "cast", "gate", "count", "exchange", "prepare", "wait", "dispatch", "sort", "gemm1", "gemm2"]

ROUTERS = ["router_loss", "balance_loss", "z_loss", "largest_load"]


def path(name: str, variant: str) -> Path:
    return FOLDER / f"{name}-{variant}.txt"


def steps(name: str, count: int | None = None) -> list[str]:
    return [name, "--device", "cpu", "--seed", "3", "--steps", str(count or STEPS[name])]


@cache
def together(ranks: int, clock: str = "wall") -> None:
    """Write the logs of all trainings that run on so many ranks and by that clock."""
    batch: dict[Path, list[str]] = {}
    if clock == "calls":
        batch |= {path(name, "calls"): [*steps(name, 3), "--scale", "0.25"] for name in RECIPES}
    elif ranks == RANKS:
        for name in ORIGINAL:
            scaled = [*steps(name), "--scale", "0.5"]
            batch |= {path(name, way): [*scaled, "--dialect", way] for way in ("reference", "original")}
    else:
        batch[path("kernels", "reference")] = [*steps("kernels"), "--output", str(TRACE)]
        batch[path("pipeline", "one-stage")] = [*steps("pipeline", 3), "--scale", "0.5"]
        for dtype in ("float32", "bfloat16", "float16"):
            batch[path("moe-layer", dtype)] = [*steps("moe-layer", 3), "--scale", "0.5", "--dtype", dtype]
    trainings = json.dumps([(str(path), arguments) for path, arguments in batch.items()])
    ForkedRanks(ranks, FOLDER / f"{ranks} {clock}", str(TESTS / "support" / "trainer_batch.py"), clock, trainings).end()


def log(name: str, variant: str = "reference") -> perflog.Log:
    return log_of(name, variant)  # one entry in the cache, whether the variant is named or not


@cache
def log_of(name: str, variant: str) -> perflog.Log:
    together(RANKS if name in ORIGINAL and variant in ("reference", "original") else 1, "wall")
    return perflog.read(path(name, variant))


@cache
def counted(name: str) -> perflog.Log:
    """A log whose times are numbers of function calls."""
    together(1, "calls")
    return perflog.read(path(name, "calls"))


def rows(name: str, table: str, dialect: str = "reference") -> list[dict[str, Any]]:
    found = log(name, dialect)
    place = {run.id: run.index for run in found.run_keys}
    return [row | {"run": place[row["run"]]} for row in found.arrow(table).to_pylist()]


def configs(name: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in log(name).runs["config"]]


# --- what every log has ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_no_line_is_unread_and_all_are_of_the_reference_format(name: str) -> None:
    lines = log(name).line_account
    assert (lines["unread"], lines["context"]) == (0, 0)
    assert set(log(name).runs["format"]) == {"reference"}


@pytest.mark.parametrize("name", ORIGINAL)
def test_no_line_of_an_original_dialect_is_unread_and_the_format_is_the_original(name: str) -> None:
    found = log(name, "original")
    assert found.line_account["unread"] == 0
    assert set(found.runs["format"]) == {load_recipe(name).like}
    assert len(found) == len(log(name))


@pytest.mark.parametrize("name", RECIPES)
def test_runs_say_what_ran_on_what(name: str) -> None:
    for index, (said, row) in enumerate(zip(configs(name), rows(name, "runs"), strict=True), 1):
        assert row["label"] == f"{name} {said['variant']}"
        assert (said["place"], said["places"], said["steps"], said["seed"]) == (index, len(log(name)), STEPS[name], 3)
        assert row["world_size"] == said["world_size"] == (1 if name == "kernels" else RANKS)
        assert (row["device"], row["dtype"]) == ("cpu", "float32")
        assert {"torch_version", "python_version", "perflog_version", "hardware", "convention"} <= said.keys()
        assert said["convention"] == get("reference").flops


@pytest.mark.parametrize("name", RECIPES)
def test_every_step_is_printed_once(name: str) -> None:
    steps = log(name).table("steps")
    assert (steps.groupby("run").size() == STEPS[name]).all()
    assert (steps["copy"] == 1).all()
    assert (steps["memory_bytes"] > 1 << 20).all()


@pytest.mark.parametrize("name", RECIPES)
def test_every_rank_tells_its_own_step(name: str) -> None:
    elapsed = [r for r in rows(name, "values") if r["key"] == "elapsed"]
    ranks = range(1 if name == "kernels" else RANKS)
    assert [
        (r["run"], r["step"], r["rank"]) for r in sorted(elapsed, key=lambda r: (r["run"], r["step"], r["rank"]))
    ] == [(run.index, step, rank) for run in log(name).run_keys for step in range(STEPS[name]) for rank in ranks]
    assert {r["unit"] for r in elapsed} == {"s"}
    longest: dict[tuple[int, int], float] = {}
    for r in elapsed:
        longest[r["run"], r["step"]] = max(r["value"], longest.get((r["run"], r["step"]), 0.0))
    assert {(r["run"], r["step"]): r["step_time_s"] for r in rows(name, "steps")} == longest
    assert "parts-exceed-whole" not in set(perflog.lint(log(name))["code"])


@pytest.mark.parametrize("name", RECIPES)
def test_the_printed_rate_is_that_of_its_convention(name: str) -> None:
    for row in rows(name, "steps"):
        said = configs(name)[row["run"] - 1]
        work = 6 * said["matmul_parameters"]
        work += 12 * said["layers"] * said["heads"] * said["head_dim"] * said["sequence_length"]
        tokens = said["tokens_per_rank"] * said["data_ranks"]
        flops = work * tokens / said["world_size"] / row["step_time_s"]
        assert row["tflops"] == pytest.approx(flops / 1e12, abs=5.1e-7)
        assert row["tokens_per_s"] == pytest.approx(tokens / row["step_time_s"], abs=0.06)


@pytest.mark.parametrize("name", RECIPES)
def test_the_summary_is_the_mean_of_the_steps_it_names(name: str) -> None:
    for row in rows(name, "summaries"):
        said = configs(name)[row["run"] - 1]
        assert (row["window_first"], row["window_last"]) == (said["summary_first"], said["summary_last"])
        assert (said["summary_first"], said["summary_last"]) == (said["warmup_steps"], STEPS[name] - 1)
        assert row["window_fit"] == "exact"


@pytest.mark.parametrize("name", RECIPES)
def test_the_phases_explain_the_step(name: str) -> None:
    def share(log: perflog.Log) -> Any:
        phases, values = log.table("phases"), log.table("values")
        whole = values[values["key"] == "elapsed"].set_index(["run", "rank", "step"])["value"]
        parts = phases[phases["phase"].isin(TOP)].groupby(["run", "rank", "step"])["time_s"].sum()
        assert len(parts) == len(whole)
        return (parts / whole).fillna(0.0)

    assert share(log(name)).max() <= 1 + 1e-6
    assert share(counted(name)).between(0.9, 1).all()


@pytest.mark.parametrize("name", ["moe-layer", "pipeline"])
def test_the_loss_falls(name: str) -> None:
    for run in log(name).run_keys:
        losses = [r["loss"] for r in rows(name, "steps") if r["run"] == run.index]
        assert losses[-1] < 0.75 * losses[0]


# --- the layer ------------------------------------------------------------------------------------------------------


def test_loads_add_up_to_the_choices_of_all_tokens() -> None:
    said = configs("moe-layer")
    for run in range(1, 4):
        chosen = said[run - 1]["tokens_per_rank"] * RANKS * said[run - 1]["top_k"]
        for step in range(STEPS["moe-layer"]):
            mine = [r for r in rows("moe-layer", "loads") if (r["run"], r["step"]) == (run, step)]
            assert sum(r["amount"] for r in mine if r["expert"] is not None) == chosen
            ranks = [r for r in mine if r["expert"] is None]
            if said[run - 1]["strategy"] != "padded":
                assert sum(r["amount"] for r in ranks) == chosen
            assert all(r["remote"] <= r["amount"] for r in ranks)


def test_the_losses_of_the_routers_and_the_largest_load_are_printed_each_step() -> None:
    values = [r for r in rows("moe-layer", "values") if r["step"] is not None]
    by_key = {key: {(r["run"], r["step"]): r["value"] for r in values if r["key"] == key} for key in ROUTERS}
    chosen: dict[tuple[int, int], list[int]] = {}
    for r in rows("moe-layer", "loads"):
        if r["expert"] is not None:
            chosen.setdefault((r["run"], r["step"]), []).append(r["amount"])
    assert len(by_key["router_loss"]) == 3 * STEPS["moe-layer"] == len(chosen)
    for place, counts in chosen.items():
        assert by_key["largest_load"][place] == pytest.approx(max(counts) * len(counts) / sum(counts), abs=1e-4)
        parts = 0.01 * by_key["balance_loss"][place] + 0.001 * by_key["z_loss"][place]
        assert by_key["router_loss"][place] == pytest.approx(parts, abs=1e-6)
    said = configs("moe-layer")[0]
    assert (said["balance_coefficient"], said["z_coefficient"], said["bias_rate"]) == (0.01, 0.001, 0)


def test_only_the_padded_strategy_drops() -> None:
    dropped = [(r["run"], r["value"]) for r in rows("moe-layer", "values") if r["key"] == "dropped"]
    assert sum(v for run, v in dropped if run == 1) > 0
    assert sum(v for run, v in dropped if run != 1) == 0


def test_strategies_without_drops_train_alike() -> None:
    losses = [[r["loss"] for r in rows("moe-layer", "steps") if r["run"] == run] for run in (2, 3)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_the_shadow_strategy_moves_fewer_rows() -> None:
    remote = {run: sum(r["remote"] or 0 for r in rows("moe-layer", "loads") if r["run"] == run) for run in (2, 3)}
    assert remote[3] < remote[2]


@pytest.mark.parametrize("name", RECIPES)
def test_every_phase_comes_once_in_a_step_of_a_rank(name: str) -> None:
    phases = log(name).table("phases")
    assert (phases["occurrence"] == 1).all()
    assert not phases.duplicated(["run", "rank", "step", "phase"]).any()


def test_the_parts_of_the_forward_are_within_it() -> None:
    phases = log("moe-layer").table("phases")
    sums = phases[phases["phase"].isin(INSIDE)].groupby(["run", "rank", "step"])["time_s"].sum()
    forward = phases[phases["phase"] == "forward"].set_index(["run", "rank", "step"])["time_s"]
    assert (sums <= forward.reindex(sums.index)).all()
    assert {"wait_backward", "combine_backward", "dispatch_backward"} <= set(phases["phase"])


def test_plain_products_are_timed_before_and_after_the_steps_and_set_beside_the_layer() -> None:
    plain = [r for r in rows("moe-layer", "values") if r["key"] == "plain_tflops"]
    assert [(r["run"], r["rank"], r["step"]) for r in sorted(plain, key=lambda r: (r["run"], r["rank"]))] == [
        (run, rank, None) for run in (1, 2, 3) for rank in range(RANKS) for _ in range(2)
    ]
    said = configs("moe-layer")[0]
    work = 12 * said["plain_experts"] * said["plain_rows"] * said["model_dim"] * said["hidden_size"]
    times = {
        r["key"]: r["value"] for r in rows("moe-layer", "values") if (r["run"], r["rank"], r["step"]) == (1, 0, None)
    }
    spent = times["plain_gemm1"] + times["plain_gemm2"] + times["plain_backward"]
    assert times["plain_tflops"] == pytest.approx(work / spent / 1e12, abs=1e-6)
    found = perflog.metrics.matmul_efficiency(log("moe-layer"))
    assert set(found["what"][found["part"] == "work"]) == {
        rate.name for rate in get("reference").rates if not rate.name.startswith("shared")
    }
    assert (found.dropna(subset=["ratio"])["ratio"] > 0).all()
    found = perflog.metrics.matmul_efficiency(counted("moe-layer"))
    assert found[found["part"] != "work"].groupby("run")["share"].sum().between(0.8, 1.2).all()  # sums of medians


def test_two_nodes_with_a_log_each_have_the_same_runs(tmp_path: Path) -> None:
    """Of two nodes with one rank each: each log names its runs and holds its own rank."""
    logs = [tmp_path / "node0.txt", tmp_path / "node1.txt"]
    options = ["--set", "shared_experts=1", "--set", "overlap=2", "--set", "activation=swiglu"]
    small = ["moe-layer", "--steps", "2", "--scale", "0.25", "--device", "cpu"]
    ForkedRanks(2, logs, "perflog.trainer", *small, *options).end()
    each = sorted((perflog.read(log) for log in logs), key=lambda log: log.row_counts.get("steps", 0))
    for rank, one in zip((1, 0), each, strict=True):
        assert [run.label for run in one.run_keys] == [f"moe-layer {way}" for way in ("padded", "dropless", "shadow")]
        assert one.line_account["unread"] == 0
        assert set(one.table("phases")["rank"]) == {rank}
        configs = [json.loads(said) for said in one.runs["config"]]
        assert {(said["world_size"], said["shared_experts"], said["overlap"]) for said in configs} == {(2, 1, 2)}
        assert {"shared", "shared_backward", "rows_wait", "gradients_wait"} <= set(one.table("phases")["phase"])
        plain = one.table("values").query("key == 'plain_tflops'")["value"]
        assert {said["plain_matrices"] for said in configs} == {3} and (plain > 0).all()
        hidden = perflog.metrics.phases(one).query("hidden")["phase"]
        assert set(hidden) == {"rows_transfer", "gradients_transfer"}
        assert (one.table("phases")["occurrence"] == 1).all()
    assert [one.row_counts.get("steps", 0) for one in each] == [0, 6]


def test_the_original_layer_lines_hold_what_the_original_holds() -> None:
    phases = {r["phase"] for r in rows("moe-layer", "phases", "original")}
    assert phases == {"process", "gate", "exchange", "select", "dispatch", "moe_forward"}
    said = json.loads(log("moe-layer", "original").runs["config"][0])
    for row in rows("moe-layer", "steps", "original"):
        work = said["samples"] * said["model_dim"] * said["hidden_size"] * 4 * said["top_k"] * 3
        assert row["tflops"] == pytest.approx(work / row["step_time_s"] / 1e12, abs=0.00501)
        assert row["step_time_s"] >= row["forward_s"] + row["backward_s"]
    windows = {(r["window_first"], r["window_last"]) for r in rows("moe-layer", "summaries", "original")}
    assert windows == {(STEPS["moe-layer"] - 10, STEPS["moe-layer"] - 1)}


# --- the others -----------------------------------------------------------------------------------------------------


def test_the_sweep_has_three_models_on_three_strategies() -> None:
    labels = [run.label for run in log("sweep").run_keys]
    models, strategies = ("gpt2", "bert", "transformer-xl"), ("dense", "padded", "dropless")
    assert labels == [f"sweep {model}/{strategy}" for model in models for strategy in strategies]
    original = [run.label for run in log("sweep", "original").run_keys]
    assert original[:2] == ["dense gpt2 0", "padded gpt2 4"]
    assert {r["process"] for r in rows("sweep", "runs", "original")} == {1}


def test_each_stage_times_its_layers() -> None:
    layers = [(r["stage"], r["layer"]) for r in rows("pipeline", "layers") if r["step"] == 1]
    assert sorted(layers) == [(0, "0"), (0, "1"), (0, "embed"), (1, "2"), (1, "3"), (1, "lm_head")]
    assert {r["calls"] for r in rows("pipeline", "layers")} == {configs("pipeline")[0]["micro_batches"]}
    assert all(r["avg_s"] == pytest.approx(r["time_s"] / r["calls"], abs=1e-9) for r in rows("pipeline", "layers"))
    spent = {(r["step"], r["rank"], r["phase"]): r["time_s"] for r in rows("pipeline", "phases")}
    for step, rank in {(r["step"], r["rank"]) for r in rows("pipeline", "layers")}:
        mine = sum(r["time_s"] for r in rows("pipeline", "layers") if (r["step"], r["rank"]) == (step, rank))
        assert mine <= spent[step, rank, "stage_forward"] <= spent[step, rank, "schedule"]


def test_the_original_pipeline_counts_leaf_modules() -> None:
    calls = {r["layer"]: r["calls"] for r in rows("pipeline", "layers", "original")}
    assert calls == {"embed": 8, "lm_head": 8, **dict.fromkeys("0123", 64)}
    steps = rows("pipeline", "steps", "original")
    assert [(r["step"], r["steps_averaged"]) for r in steps] == [(n, 1) for n in range(1, STEPS["pipeline"] + 1)]


def test_the_loss_is_that_of_the_same_model_whatever_the_number_of_stages() -> None:
    one = [r["loss"] for r in log("pipeline", "one-stage").arrow("steps").to_pylist()]
    assert one == pytest.approx([r["loss"] for r in rows("pipeline", "steps")][:3], rel=1e-4)


def test_the_kernel_table_has_every_range_and_adds_up() -> None:
    kernels = log("kernels").table("kernels")
    assert {
        f"{way}/layer.{n}/{part}" for way in ("forward", "backward") for n in (0, 1) for part in ("attention", "mlp")
    } <= {*kernels["range"]}
    ranges = kernels[kernels["kind"] == "range"].set_index("range")
    work = kernels[kernels["kind"] != "range"]
    profiled = STEPS["kernels"] - configs("kernels")[0]["warmup_steps"]
    assert (ranges.loc[["forward", "backward", "optimizer", "step"], "calls"] == profiled).all()
    assert not work.duplicated(["section", "kind", "name"]).any()
    assert kernels.groupby("section")["range"].nunique().max() == 1
    assert (kernels["min_s"] <= kernels["avg_s"] + 1e-9).all()
    assert (kernels["avg_s"] <= kernels["max_s"] + 1e-9).all()
    # operators without what is inside them: they fit into the step
    assert work["time_s"].sum() <= ranges.loc["step", "time_s"]
    products = work[work["name"] == "aten::mm"].set_index("range")["calls"]
    parts = {"layer.0/attention": 2, "layer.0/mlp": 2, "layer.1/attention": 2, "layer.1/mlp": 2, "head": 1}
    forward = {f"forward/{part}": profiled * count for part, count in parts.items()}
    backward = {f"backward/{part}": profiled * count * 2 for part, count in parts.items()}
    assert products.to_dict() == forward | backward
    forward = work[work["range"].str.startswith("forward")]["time_s"].sum()
    assert forward <= ranges.loc["forward", "time_s"]


def test_the_chrome_trace_is_written_whole() -> None:
    log("kernels")
    events = json.loads(TRACE.read_text())["traceEvents"]
    names = {event.get("name") for event in events}
    assert {"layer.0", "attention", "aten::mm"} <= names
    assert list(FOLDER.glob(".part*")) == []


# --- precision, and what goes wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_trains_as_single_does(dtype: str) -> None:
    half, full = ([r["loss"] for r in log("moe-layer", p).arrow("steps").to_pylist()] for p in (dtype, "float32"))
    assert len(full) == 9
    assert half == pytest.approx(full, rel=0.02)


def test_the_log_of_killed_ranks_has_whole_lines(tmp_path: Path) -> None:
    """`test_launch` kills a rank under torchrun, which ends the others."""
    log = tmp_path / "log.txt"
    arguments = ("moe-layer", "--steps", "100000", "--scale", "0.25", "--device", "cpu")
    ranks = ForkedRanks(2, log, "perflog.trainer", *arguments)
    wait_until(lambda: log.is_file() and log.stat().st_size > 10_000)
    os.kill(ranks.processes[1], signal.SIGKILL)
    assert ranks.codes() == [-signal.SIGKILL, -signal.SIGKILL]
    assert perflog.read(log).line_account["unread"] == 0


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_rank_at_once(tmp_path: Path, sign: signal.Signals) -> None:
    log = tmp_path / "log.txt"
    rank = ForkedRanks(1, log, "perflog.trainer", "moe-layer", "--steps", "100000", "--device", "cpu")
    wait_until(lambda: log.is_file() and b"\n" in log.read_bytes())
    assert log.read_bytes().startswith(b"perflog trainer: recipe moe-layer")
    os.kill(rank.processes[0], sign)
    assert rank.codes() == [-sign]
    assert rank.errors.read_bytes() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    arguments = ("pipeline", "--steps", "1", "--device", "cpu")
    rank = ForkedRanks(1, Path("/dev/full"), "perflog.trainer", *arguments, errors=tmp_path / "errors")
    assert (rank.codes(), rank.errors.read_text()) == (
        [3],
        "perflog: the log cannot be written: No space left on device\nwhat was written so far is kept\n",
    )


def test_a_gpu_that_is_not_there_is_told(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    rank = ForkedRanks(1, tmp_path / "log.txt", "perflog.trainer", "moe-layer", "--device", "cuda")
    assert (rank.codes(), rank.errors.read_text()) == (
        [2],
        "perflog: there is no CUDA device\ntake --device cpu, or a PyTorch that is built for CUDA\n",
    )
