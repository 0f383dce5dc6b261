"""Lists of runs: which columns, in which order, of which runs."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest
from support.commands import EARLY, MOE, SWEEP, run, told

import perflog
from perflog.analysis.overview.run_figures import RunFigure
from perflog.analysis.run_list import RunFacts, RunList
from perflog.errors import UsageError
from perflog.log import combined
from perflog.tables.store import writer
from perflog.units import UTC


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Runs of one format that differ in a setting and in their step times, and others."""
    for k, (size, ms) in enumerate([(8, 30.0), (16, 10.0), (128, 20.0)]):
        steps = "".join(f"iter {i}: loss 2.5, time {ms + i % 2 / 10:.2f}ms, mfu 1.00%\n" for i in range(9))
        (tmp_path / f"run{k}.txt").write_text(f"batch_size = {size}\n{steps}")
    run("ingest", tmp_path, MOE, SWEEP, "--store", tmp_path / "store")
    return tmp_path / "store"


def logs(*arguments: object) -> list[str]:
    rows = told("runs", *arguments, "--format", "json")["rows"]
    return [f"{Path(row['log']).stem}:{row['index']}" for row in rows]


def test_conditions_and_order(store: Path) -> None:
    every = ("--store", store)
    assert logs(*every, "--where", "format = nanogpt", "--sort", "step") == ["run1:1", "run2:1", "run0:1"]
    assert logs(*every, "--where", "format = nanogpt", "--sort", "-step_time") == ["run0:1", "run2:1", "run1:1"]
    assert logs(*every, "--where", "step < 0.025 and format = nanogpt") == ["run1:1", "run2:1"]  # in seconds
    of_labels = logs(*every, "--where", "label ~ fastermoe or world_size = 4 and steps = 4")
    assert of_labels == ["moe_layer:1", "training_sweep:2"]
    assert logs(*every, "--sort", "label", "--limit", "3")[:2] == ["training_sweep:2", "training_sweep:1"]


def test_runs_without_the_fact_come_last_in_both_orders(store: Path) -> None:
    for sort in ("top_k", "-top_k"):
        first, *others = logs("--store", store, "--sort", sort)
        assert first == "moe_layer:1" and len(others) == 5


def test_a_trace_has_steps_and_no_printed_times(tmp_path: Path) -> None:
    """The annotation of a step ends when all its work is launched: it may be a fraction of the step."""
    events = []
    for k in range(3):
        step = {"cat": "user_annotation", "name": f"ProfilerStep#{k}", "pid": 1, "tid": 1, "ts": 10 * k, "dur": 10}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10 * k + 1, "dur": 2}
        kernel = {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10 + 100 * k, "dur": 100}
        launch["args"], kernel["args"] = {"correlation": k}, {"correlation": k, "device": 0, "stream": 7}
        events += [{"ph": "X", **each} for each in (step, launch, kernel)]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    facts = RunFacts(perflog.read(tmp_path / "trace.json"))
    assert facts.facts("median_step") == {}
    assert list(facts.facts("step").values()) == [pytest.approx(100e-6)]


def test_a_line_of_many_steps_counts_as_many_times(tmp_path: Path) -> None:
    line = " iteration {:8d}/    1000 | elapsed time per iteration (ms): {:.1f} | lm loss: 2.5E+00 |\n"
    lines = (line.format(step, 500 if step <= 300 else 900) for step in (100, 200, 300, 310, 320, 330, 340, 350))
    (tmp_path / "run.log").write_text("".join(lines))
    assert list(RunFacts(perflog.read(tmp_path / "run.log")).facts("median_step").values()) == [0.5]


def test_columns_by_name(store: Path) -> None:
    columns = "format,top_k,steps,unread,step,median_step"
    (row,) = told("runs", "--store", store, "--where", "log ~ moe_layer", "--columns", columns, "--format", "json")[
        "rows"
    ]
    assert list(row) == columns.split(",")
    assert (row["format"], row["top_k"], row["steps"], row["unread"]) == ("moe_layer", "2", 4, 0)
    log = perflog.read(MOE)
    assert row["median_step"] == median(log.table("steps")["step_time_s"].dropna())
    assert row["step"] == perflog.overview(log).figures[0].values[log.run_keys[0].id]


def test_the_screen_shows_what_tells_runs_apart(store: Path) -> None:
    shown = run("runs", "--store", store, "--where", "format = nanogpt").stdout.splitlines()
    assert shown[0].split() == ["run", "format", "batch_size", "median_step", "steps", "ingested", "(UTC)", "log"]
    assert [line.split()[2:5] for line in shown[1:]] == [["8", "30", "ms"], ["16", "10", "ms"], ["128", "20", "ms"]]
    sweep = run("runs", "--store", store, "--where", "format = training_sweep").stdout.splitlines()
    assert sweep[0].split()[:6] == ["run", "label", "index", "format", "model", "world_size"] and "system" in sweep[0]


def test_when_runs_were_ingested(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "utc_now", lambda: "2100-03-01T09:30:15Z")
    run("ingest", EARLY, MOE, "--store", store)  # the store had the second
    every = ("--store", store)
    assert logs(*every, "--where", "ingested >= 2100") == ["moe_layer_early:1"]
    assert logs(*every, "--sort", "-ingested")[0] == "moe_layer_early:1"
    (row,) = told("runs", *every, "--where", "ingested = 2100-03-01", "--format", "json")["rows"]
    assert row["ingested"] == "2100-03-01T09:30:15Z"
    assert "2100-03-01 09:30  " in run("runs", *every, "--wide").stdout
    both = combined([perflog.load(store).select(row["run"]), perflog.read(SWEEP)])
    assert both.ingested == {row["run"]: row["ingested"]}


def test_an_unknown_name_and_no_run(store: Path) -> None:
    with pytest.raises(UsageError, match="no run has `top_q`") as error:
        RunList(perflog.load(store)).facts("top_q")
    assert "did you mean `top_k`?" in str(error.value)
    assert "no run of 6 fulfils the condition" in run("runs", "--store", store, "--where", "steps > 1e9").stderr
    assert "cannot be read" in run("runs", "--store", store, "--where", "steps >", code=2).stderr


def facts_of(settings: dict[str, dict[str, str]], *figures: RunFigure) -> RunFacts:
    """Facts of runs with these settings and metrics."""
    made = RunFacts(SimpleNamespace())  # type: ignore[arg-type]
    made.__dict__.update(settings=settings, _figures=list(figures))
    return made


def test_a_name_is_a_setting_or_a_metric() -> None:
    """A setting may be named without its parents, unless several have the name; settings come before metrics."""
    step = RunFigure("step", "s", "lower", {"r": 0.5})
    rate, tflops = (
        RunFigure(name, unit, "higher", {"r": 9.0}) for name, unit in (("tokens/s", "1/s"), ("TFLOPS", "TFLOP/s"))
    )
    facts = facts_of({"r": {"a.batch": "8", "lr": "1", "a.x": "1", "b.x": "2"}, "q": {"lr": "2"}}, step, rate, tflops)
    assert facts.facts("lr") == {"r": "1", "q": "2"} and facts.facts("batch") == facts.facts("a.batch") == {"r": "8"}
    assert facts.facts("step") == facts.facts("step_time") == {"r": 0.5}
    assert facts.facts("tokens_per_s") == facts.facts("tflops") == {"r": 9.0}
    for unknown in ("x", "nothing"):
        with pytest.raises(UsageError, match=f"no run has `{unknown}`"):
            facts.facts(unknown)
    units = {
        name: facts.unit(name)
        for name in ("step", "tokens_per_s", "median_step", "total", "ingested", "lr", "steps", "x")
    }
    assert units == {
        "step": "s", "tokens_per_s": "1/s", "median_step": "s", "total": "s", "ingested": UTC, "lr": "", "steps": "",
        "x": "",
    }  # fmt: skip
    assert facts_of({"r": {"a.step": "7"}}, step).unit("step") == ""


def test_what_ended_a_run_is_a_fact(tmp_path: Path) -> None:
    steps = "".join(f"iter {i}: loss 2.5, time {30 + i % 2 / 10:.2f}ms, mfu 1.00%\n" for i in range(9))
    failed = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
    endings = {
        "memory": f"{failed}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        "index": f"{failed}IndexError: index 5 is out of bounds\n",
        "well": "",
    }
    for name, ending in endings.items():
        (tmp_path / f"{name}.txt").write_text(f"{steps}{ending}")
    run("ingest", tmp_path, "--store", tmp_path / "store")
    assert logs("--store", tmp_path / "store", "--where", "ended_by ~ memory") == ["memory:1"]
    shown = perflog.load(tmp_path / "store")
    assert "ended_by" in RunList(shown).brief()
    assert sorted(map(str, RunList(shown).facts("ended_by").values())) == ["CUDA out of memory", "IndexError"]
    assert "ended_by" not in RunList(perflog.read(tmp_path / "well.txt")).brief()
    overview = perflog.overview(tmp_path)
    doubt = next(doubt for doubt in overview.doubts if doubt.is_outcome)
    assert overview.in_words(doubt) == "a failure ended the run (A, B): IndexError, CUDA out of memory"
