"""The command line: what it prints, its exit codes, and what it says about wrong input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.commands import BROKEN, DATA, EARLY, MOE, NVPROF, PIPELINE, STEP, SWEEP, TRAINER, run, told
from support.paths import ROOT, TESTS
from support.patience import PATIENCE_S
from support.stores import rows

import perflog as perflog_api
from perflog.tables.schema import SCHEMA_VERSION
from perflog.tables.store import Store


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path


# --- ingest -----------------------------------------------------------------------------------------------------


def test_ingest_tells_what_it_read() -> None:
    out = run("ingest", SWEEP).stdout
    assert "format   training_sweep" in out
    assert "labels   2: naive gpt2 16, fastermoe gpt2 16" in out
    assert "steps 24" in out
    assert "102 = 42 read + 60 context + 0 unread" in out
    assert "stored in .perflog" in out
    assert len(Store(".perflog").logs()) == 1


def test_ingest_as_json() -> None:
    said = told("ingest", "--json", "--store", "store", "--label", "base", SWEEP, MOE)
    assert set(said) == {"schema_version", "logs", "errors"}
    assert said["schema_version"] == SCHEMA_VERSION
    assert said["errors"] == []
    sweep = said["logs"][0]
    want = {"log", "format", "formats", "sha256", "runs", "tables", "lines", "figures", "warnings"}
    want |= {"grown_by", "others_of_path"}
    assert set(sweep) == want
    assert (sweep["log"], sweep["format"], sweep["formats"]) == (SWEEP, "training_sweep", ["training_sweep"])
    assert sweep["lines"] == {"total": 102, "read": 42, "context": 60, "unread": 0}
    assert sweep["figures"] == {"total": 112, "stored": 108, "dropped": 4, "unread": 0}
    assert [set(r) for r in sweep["runs"]] == [{"run", "label", "index", "format"}] * 2
    assert [r["label"] for r in sweep["runs"]] == ["base#naive gpt2 16", "base#fastermoe gpt2 16"]
    assert sweep["runs"][0]["run"] == f"{sweep['sha256'][:12]}-1"
    assert sweep["tables"]["steps"] == 24
    assert [r["label"] for r in said["logs"][1]["runs"]] == ["base"]


def test_ingesting_twice_changes_nothing() -> None:
    assert told("ingest", "--json", MOE) == told("ingest", "--json", MOE)
    assert len(told("runs", "--format", "json")["rows"]) == 1


def test_a_missing_file() -> None:
    done = run("ingest", MOE.replace("moe_layer.", "moe_leyer."), code=3)
    assert done.stdout == ""
    assert done.stderr == f"perflog: {DATA}/moe_leyer.txt: no such file\ndid you mean {MOE}?\n"


def test_a_folder_without_logs(work: Path) -> None:
    (work / "empty").mkdir()
    (work / "empty" / "model.py").write_text("pass")
    assert "no logs in this folder" in run("ingest", "empty", code=3).stderr
    assert "no file matches" in run("ingest", "empty/*.log", code=3).stderr


@pytest.mark.filterwarnings("default::perflog.tables.store.DamageWarning")
def test_a_store_whose_batch_is_damaged_is_not_empty(work: Path) -> None:
    run("ingest", str(DATA / "reference.txt"))
    for path in (work / ".perflog" / "runs").iterdir():
        path.write_bytes(b"PAR1")
    told = run("runs").stderr
    assert "damaged" in told and "empty" not in told
    for path in (work / ".perflog" / "runs").iterdir():
        path.unlink()
    assert "the store is empty" in run("runs").stderr


def test_a_log_of_failures_alone_has_no_format(work: Path) -> None:
    failure = "RuntimeError: CUDA error: an illegal memory access was encountered"
    (work / "a.log").write_text(f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{failure}\n')
    assert "a.log: no known format, 1 run" in run("a.log").stdout


def test_an_empty_file(work: Path) -> None:
    (work / "empty.txt").touch()
    for command in ("ingest", "show", "detect"):
        assert "the log is empty" in run(command, "empty.txt", code=3).stderr
    assert "the log is empty" in run("formats", "suggest", "empty.txt", code=3).stderr


def test_logs_are_removed_from_a_store(work: Path) -> None:
    run("ingest", "--label", "old", MOE)
    run("ingest", SWEEP)
    assert "there is no log or run 'none' in the store" in run("rm", "none", code=2).stderr
    assert run("rm", "old").stdout == f"{MOE}: removed with 1 run\n"
    [log] = Store(".perflog").logs()
    assert run("rm", f"{log[:6]}").stdout == f"{SWEEP}: removed with 2 runs\n"
    assert Store(".perflog").logs() == []
    assert Path(MOE).exists()


@pytest.mark.parametrize("name", ["ab", ""])
def test_a_name_that_could_mean_several_logs_removes_nothing(work: Path, name: str) -> None:
    store = Store(".perflog")
    for sha in ("ab1" + 61 * "0", "ab2" + 61 * "0"):
        with store.write([sha[:16]]) as out:
            out.add("runs", rows("runs", f"{sha[:12]}-1", 1, log_sha256=sha, log=f"{sha[:3]}.txt", index=1))
    assert run("rm", name, code=2).stderr
    assert len(store.logs()) == 2
    assert run("rm", "ab1").stdout == "ab1.txt: removed with 1 run\n"


def test_a_store_is_compacted(work: Path) -> None:
    assert "there is no store here" in run("compact", code=3).stderr
    run("ingest", MOE)
    run("ingest", SWEEP)
    before = run("runs").stdout
    assert run("compact").stdout == ".perflog: 11 files before, 7 now\n"
    assert run("runs").stdout == before


def test_a_binary_file(work: Path) -> None:
    (work / "binary.txt").write_bytes(bytes(range(256)) * 40)
    for command in ("ingest", "show", "detect"):
        assert "it looks binary" in run(command, "binary.txt", code=3).stderr


def test_a_log_in_which_nothing_is_recognised(work: Path) -> None:
    (work / "other.txt").write_text(f"{BROKEN}\n" * 3)
    for command in ("ingest", "detect"):
        done = run(command, "other.txt", code=3)
        assert done.stdout == ""
        assert "other.txt: nothing in it is recognised" in done.stderr
        lines = done.stderr.splitlines()
        caret = next(i for i, line in enumerate(lines) if line.lstrip().startswith("^ expected a number"))
        assert lines[caret - 1][lines[caret].index("^") :].startswith("x16.876465")
    assert not Store(".perflog").logs()


def test_a_truncated_gzip_is_read_as_far_as_it_goes(work: Path) -> None:
    whole = gzip.compress(Path(MOE).read_bytes(), mtime=0)
    (work / "cut.txt.gz").write_bytes(whole[: len(whole) * 2 // 3])
    said = told("ingest", "--json", "cut.txt.gz")
    (log,) = said["logs"]
    assert 0 < log["lines"]["total"] < 261
    assert "ends early or is damaged" in log["warnings"][0]
    assert "ends early or is damaged" in run("show", "cut.txt.gz").stderr
    (run_,) = told("runs", "--format", "json")["rows"]
    assert run_["lines"] == log["lines"]["total"]


def test_a_whole_gzip_is_the_log_itself(work: Path) -> None:
    (work / "log.gz").write_bytes(gzip.compress(Path(MOE).read_bytes()))
    one, two = (told("ingest", "--json", name)["logs"][0] for name in (MOE, "log.gz"))
    assert one | {"log": ""} == two | {"log": ""}


def test_strict(work: Path) -> None:
    text = Path(EARLY).read_text()
    (work / "odd.txt").write_text(text.replace("STEP-1:", "Step 1 is late\nSTEP-1:"))
    done = run("ingest", "--strict", "odd.txt", EARLY, code=3)
    line = (work / "odd.txt").read_text().split("\n").index("Step 1 is late") + 1
    assert f"odd.txt: 1 line is unread; the first is line {line}:\n  Step 1 is late\n" in done.stderr
    assert [r["log"] for r in told("runs", "--format", "json")["rows"]] == [EARLY]  # nothing of odd.txt
    loose = run("ingest", "odd.txt")
    assert f"the first is line {line}: Step 1 is late" in loose.stdout
    assert "perflog formats suggest odd.txt" in loose.stdout


def test_strict_keeps_what_was_stored_before(work: Path) -> None:
    (work / "odd.txt").write_text(Path(EARLY).read_text() + "odd\n")
    run("ingest", "odd.txt")
    before = told("runs", "--format", "json")
    run("ingest", "--strict", "odd.txt", code=3)
    assert told("runs", "--format", "json") == before


def test_one_broken_log_does_not_stop_the_others(work: Path) -> None:
    (work / "broken.txt").write_text("what is this\n")
    done = run("ingest", "--json", MOE, "broken.txt", "none.txt", SWEEP, code=3)
    said = json.loads(done.stdout)
    assert [x["log"] for x in said["logs"]] == [MOE, SWEEP]
    assert [(x["log"], x["reason"]) for x in said["errors"]] == [
        ("broken.txt", "nothing in it is recognised"),
        ("none.txt", "no such file"),
    ]
    assert all(set(x) == {"log", "reason", "help"} for x in said["errors"])
    assert done.stderr.count("perflog: ") == 2
    assert len(told("runs", "--format", "json")["rows"]) == 3


def test_reference_runs_are_no_log_to_ingest() -> None:
    done = run("ingest", "reference:moe_layer.txt", code=3)
    assert done.stderr.startswith("perflog: reference:moe_layer.txt: no such file\nreference runs are tables, not logs")


@pytest.mark.parametrize(("name", "pattern"), [("logs", "**/*.txt"), ("logs/*.txt", "*.txt")])
def test_a_folder_and_a_glob(work: Path, name: str, pattern: str) -> None:
    for number, path in enumerate((MOE, EARLY, SWEEP, NVPROF, PIPELINE, TRAINER)):
        folder = Path("logs", ("", "a", "a/b")[number % 3])
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)
    said = told("ingest", "--json", name)
    assert [x["log"] for x in said["logs"]] == sorted(map(str, Path("logs").glob(pattern)))
    assert len(said["logs"]) == (6 if name == "logs" else 2)


def test_a_document_beside_logs_is_no_log_and_no_error(work: Path) -> None:
    (work / "runs").mkdir()
    (work / "runs" / "log.txt").write_bytes(Path(MOE).read_bytes())
    (work / "runs" / "README.md").write_text("# Notes\n\nWe ran this on 3 nodes.\n")
    done = run("ingest", "--json", "runs")
    said = json.loads(done.stdout)
    assert [x["log"] for x in said["logs"]] == ["runs/log.txt"] and not said["errors"]
    assert "left out, because nothing in them is known: runs/README.md" in done.stderr
    assert [text for text in perflog_api.ingest("runs").warnings if "README.md" in text]
    assert "nothing in it is recognised" in run("ingest", "runs/README.md", code=3).stderr
    (work / "runs" / "log.txt").unlink()
    assert "nothing in it is recognised" in run("ingest", "runs", code=3).stderr


def test_standard_input() -> None:
    text = Path(MOE).read_bytes()
    said = json.loads(run("ingest", "--json", "-", input=text).stdout)
    assert said["logs"][0]["log"] == "-"
    assert said["logs"][0]["sha256"] == told("ingest", "--json", MOE)["logs"][0]["sha256"]
    assert "world_size  4" in run("show", "-", input=text).stdout


def test_a_store_holds_whole_logs() -> None:
    assert "leave out #2" in run("ingest", f"{SWEEP}#2", code=2).stderr


def test_the_same_bytes_are_told(work: Path) -> None:
    (work / "copy.txt").write_bytes(Path(MOE).read_bytes())
    assert f"copy.txt: the same bytes as {MOE}" in run("ingest", MOE, "copy.txt").stderr


def test_a_format_of_ones_own(work: Path) -> None:
    text = 'text = "at step {step:d} loss {loss:f}"\nsample = "at step 1 loss 2.000000"\n'
    toml = f'[[line]]\nname = "loss"\ntable = "steps"\n{text}'
    (work / "mine.toml").write_text(toml)
    (work / "log.txt").write_text("".join(f"at step {i} loss {2 / (i + 1):.4f}\n" for i in range(5)))
    assert "mine is fine" in run("formats", "check", "mine.toml").stdout
    (log,) = told("ingest", "--json", "--format", "mine.toml", "log.txt")["logs"]
    assert (log["format"], log["tables"]["steps"]) == ("mine", 5)
    assert "loss  2.5" in run("formats", "explain", "at step 3 loss 2.5", "--using", "mine.toml").stdout
    assert "nothing is left" in run("formats", "suggest", "log.txt", "--using", "mine.toml", code=3).stderr
    (work / "bad.toml").write_text(toml.replace("step 1", "stop 1"))
    bad = run("formats", "check", "bad.toml", code=3)
    assert "does not match the template" in bad.stderr
    assert "^ expected" in bad.stderr
    assert run("ingest", "--format", "bad.toml", "log.txt", "log.txt", code=3).stderr == bad.stderr


def test_many_logs_are_told_by_format(tmp_path: Path) -> None:
    """Twelve logs of a format, one of them with two unread lines, and one of another format."""
    for k in range(12):
        steps = "".join(f"iter {i}: loss 2.{k}, time 20.00ms, mfu 1.00%\n" for i in range(3))
        (tmp_path / f"run{k}.txt").write_text(steps + "hello 3\nwords\n" * (k == 5))
    shown = run("ingest", tmp_path, EARLY, "--store", tmp_path / "store").stdout.splitlines()
    early = told("ingest", EARLY, "--store", tmp_path / "store", "--json")["logs"][0]["lines"]
    assert shown[0] == "logs: 13"
    assert shown[2].split() == ["nanogpt", "12", "12", "38", "2", "1"]
    assert shown[3].split() == ["moe_layer", "1", "1", str(early["total"]), str(early["unread"]), "0"]
    assert "logs with unread lines or figures: 1" in shown
    (unread,) = (line for line in shown if "run5.txt" in line)
    assert unread.split()[1:] == ["2", "1", "line", "4:", "hello", "3"]


# --- what is in a store -----------------------------------------------------------------------------------------


def test_runs_lists_the_runs() -> None:
    run("ingest", SWEEP, MOE, "--store", "store")
    rows = told("runs", "--store", "store", "--format", "json")["rows"]
    assert [(r["label"], r["index"], r["steps"], r["unread"]) for r in rows] == [
        (None, 1, 4, 0),
        ("naive gpt2 16", 1, 12, 0),
        ("fastermoe gpt2 16", 2, 12, 0),
    ]
    out = run("runs", "--store", "store").stdout.splitlines()
    assert out[0].split()[:4] == ["run", "label", "index", "format"]
    assert len(out) == 4


def test_no_store() -> None:
    assert "there is no store here\n`perflog ingest LOG` makes one" in run("runs", code=3).stderr


def test_a_run_at_a_glance() -> None:
    run("ingest", MOE)
    (row,) = told("runs", "--format", "json")["rows"]
    for ref in (row["run"], row["run"][:4], MOE, f"{MOE}#1"):
        out = run("show", ref).stdout
        assert "top_k                   2" in out
        assert "22.14 ms" in out
        assert "phases 320" in out
        assert "lines    total 261, read 223, context 38, unread 0" in out
    said = told("show", row["run"], "--format", "json")
    assert said["run"]["world_size"] == 4
    assert said["config"]["model_dim"] == 1024
    assert said["tables"]["phases"] == 320
    assert said["lines"] == {"total": 261, "read": 223, "context": 38, "unread": 0}
    assert said["steps"][0]["step_time_s"] == pytest.approx(0.037116943)
    assert said["summaries"][0]["key"] == "step_time"


def test_one_run_of_a_log_without_a_shells_comment_sign() -> None:
    for ref in (SWEEP, "reference:training_sweep.txt"):
        assert run("show", f"{ref}:2").stdout == run("show", f"{ref}#2").stdout
    run("ingest", SWEEP)
    with_colons, with_signs = (
        run("compare", f"{SWEEP}{sign}1", f"{SWEEP}{sign}2").stdout.partition("Next: ")[0] for sign in ":#"
    )
    assert with_colons.replace(":", "#") == with_signs.replace(":", "#")


def test_without_arguments_perflog_says_what_to_type() -> None:
    lines = run().stdout.splitlines()
    assert len(lines) <= 10 and max(map(len, lines)) <= 80
    commands = [line.split()[1] for line in lines if line.startswith("  perflog")]
    assert commands == ["run.txt", "compare", "lint", "report", "ingest"]


def test_the_option_of_files_names_the_option_of_stores() -> None:
    for command in (["runs"], ["ingest", MOE], ["show", MOE], ["compare", MOE, EARLY]):
        assert "the store is --store" in run(*command, "-o", "place", code=2).stderr


def test_unread_shapes_at_a_glance(work: Path) -> None:
    (work / "odd.txt").write_text(Path(EARLY).read_text().replace("STEP-1:", "odd 1\nodd 2\nSTEP-1:"))
    assert "odd 1" in run("show", "odd.txt").stdout.partition("unread\n")[2]
    assert told("show", "odd.txt", "--format", "json")["unread"] == [{"count": 2, "first_line": 19, "sample": "odd 1"}]


def test_a_table() -> None:
    out = run("show", MOE, "steps").stdout
    assert "37.12 ms" in out
    assert "in every row: run " in out
    assert "no values: " in out
    rows = list(csv.DictReader(io.StringIO(run("show", MOE, "steps", "--format", "csv").stdout)))
    assert len(rows) == 4
    assert float(rows[0]["step_time_s"]) == pytest.approx(0.037116943)
    assert rows[0]["mfu"] == ""
    said = told("show", MOE, "steps", "--format", "json", "--limit", "2")
    assert (said["schema_version"], said["table"], len(said["rows"])) == (SCHEMA_VERSION, "steps", 2)
    assert said["rows"][0]["mfu"] is None
    assert run("show", MOE, "steps", "--format", "md").stdout.startswith("| line | step |")
    assert "319 more rows" in run("show", MOE, "phases", "--limit", "1").stdout
    assert len(run("show", MOE, "phases", "--limit", "0", "--format", "csv").stdout.splitlines()) == 321
    assert told("show", MOE, "events", "--format", "json")["rows"] == []


def test_what_is_no_number_is_null_in_json(work: Path) -> None:
    (work / "nan.txt").write_text(f"{STEP}\n{STEP.replace('16.876465', 'nan').replace('19.885056', 'inf')}\n")
    first, second = told("show", "nan.txt", "steps", "--format", "json")["rows"]
    assert first["forward_s"] == pytest.approx(0.016876465)
    assert (second["forward_s"], second["backward_s"]) == (None, None)


def test_one_of_several_runs() -> None:
    out = run("show", SWEEP).stdout
    assert "naive gpt2 16" in out
    assert f"perflog show '{SWEEP}#1'" in out
    assert len(told("show", SWEEP, "steps", "--format", "json")["rows"]) == 24
    for ref in (f"{SWEEP}#2", f"{SWEEP}#fastermoe gpt2 16"):
        assert told("show", ref, "--format", "json")["run"]["index"] == 2
    assert "there is no run `#3`" in run("show", f"{SWEEP}#3", code=2).stderr


def test_a_run_or_a_table_that_is_not_there() -> None:
    run("ingest", SWEEP)
    assert "did you mean `naive gpt2 16`" in run("show", "naive gpt2 1", code=2).stderr
    assert "no such file" in run("show", "naive.txt", code=3).stderr
    assert "did you mean `steps`" in run("show", SWEEP, "step", code=2).stderr


@pytest.mark.parametrize("format", ["text", "md", "csv", "json"])
@pytest.mark.parametrize(
    "command",
    [
        f"show {SWEEP}",
        f"show {MOE}",
        f"show {NVPROF}",
        f"show {PIPELINE}",
        f"show {NVPROF} kernels",
        f"show {PIPELINE} layers",
        f"show {PIPELINE} values",
        f"detect {SWEEP} {MOE}",
        "formats list",
        "formats show moe_layer",
    ],
)
def test_every_table_in_every_form(command: str, format: str) -> None:
    done = run(*command.split(), "--format", format)
    assert done.stdout
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    if format == "json":
        assert json.loads(done.stdout)["schema_version"] == SCHEMA_VERSION
    if format == "csv":
        widths = {len(row) for row in csv.reader(io.StringIO(done.stdout))}
        assert len(widths) == 1


# --- detect and formats -----------------------------------------------------------------------------------------


def test_detect_shows_its_proof() -> None:
    out = run("detect", SWEEP).stdout
    assert out.startswith(f"{SWEEP}: training_sweep, ")
    assert "42  step        STEP-0: step_time = 1110.413330 ms" in out
    rows = told("detect", MOE, SWEEP, "--format", "json")["rows"]
    assert {r["format"] for r in rows} == {"moe_layer", "training_sweep"}
    assert all(Path(r["log"]).read_text().splitlines()[r["line"] - 1] == r["text"] for r in rows)


def test_detect_goes_on_after_a_log_it_does_not_know(work: Path) -> None:
    (work / "other.txt").write_text("what is this\n")
    done = run("detect", "other.txt", MOE, code=3)
    assert "moe_layer" in done.stdout
    assert "nothing in it is recognised" in done.stderr


def test_formats() -> None:
    names = [r["name"] for r in told("formats", "list", "--format", "json")["rows"]]
    assert names == sorted(path.stem for path in (ROOT / "parsers").glob("*.toml"))
    assert "STEP-{step:d}: step_time" in run("formats", "show", "moe_layer").stdout
    assert "did you mean `moe_layer`" in run("formats", "show", "moe_leyer", code=2).stderr
    assert "its name ends in .toml" in run("formats", "check", "moe_layer", code=2).stderr
    for path in sorted((ROOT / "parsers").glob("*.toml"))[::12]:  # all are checked in tests/formats
        assert f"{path.stem} is fine" in run("formats", "check", path).stdout


def test_a_suggestion_is_used_at_once(work: Path) -> None:
    text = (
        b"".join(b"after iteration %d the loss is %.2f, at %.1f ms/step\n" % (k, 9 / (k + 1), 30 + k) for k in range(5))
        + b"\nend\n"
    )
    (work / "other.txt").write_bytes(text)
    assert "perflog formats suggest other.txt" in run("ingest", "other.txt", code=3).stderr
    (work / "own.toml").write_text(run("formats", "suggest", "other.txt").stdout)
    assert "own is fine" in run("formats", "check", "own.toml").stdout
    (log,) = told("ingest", "--json", "--format", "own.toml", "other.txt")["logs"]
    assert log["lines"] == {"total": 7, "read": 5, "context": 1, "unread": 1}
    assert log["tables"]["steps"] == 5
    assert run("formats", "suggest", "-", input=text).stdout.count("[[line]]") == 1


def test_explain() -> None:
    out = run("formats", "explain", STEP).stdout
    assert "line `step` of moe_layer, for table steps" in out
    assert re.search(r"^  forward -> forward_s +16.88 ms$", out, re.MULTILINE)
    line = told("formats", "explain", "2 wait time: 2.414", "--format", "json")["line"]
    assert (line["rank"], line["wait"]) == (2, pytest.approx(0.002414))
    assert "known context of moe_layer" in run("formats", "explain", "True").stdout
    done = run("formats", "explain", BROKEN, code=3)
    text, caret = done.stderr.splitlines()[-2:]
    assert text[caret.index("^") :].startswith("x16.876465")
    assert run("formats", "explain", "?", code=3).stderr.endswith("no template comes near it\n")
    assert "of meters, for table steps" in run("formats", "explain", "epoch 3 step 7 loss 0.5 time 0.2").stdout


# --- the command itself -----------------------------------------------------------------------------------------


def perflog(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "perflog", *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True, text=True, **options)


def test_help_and_version() -> None:
    for args in (["--help"], ["ingest", "-h"], ["formats", "--help"]):
        assert "Usage: perflog" in run(*args).stdout
    assert run("--version").stdout.startswith("perflog ")
    assert run("ingest", code=2).stderr.startswith("Usage: perflog ingest")
    run("analyse", code=2)
    run("show", MOE, "steps", "--format", "yaml", code=2)


@pytest.mark.parametrize("args", ["--help", "--version", "ingest --help", "formats --help", "show --help", "no-such"])
def test_help_is_light(args: str) -> None:
    heavy = ["numpy", "pyarrow", "pandas", "matplotlib", "rich", "torch"]
    look = f"print([m for m in {heavy} if m in sys.modules], file=sys.__stdout__)"
    code = f"import atexit, sys; atexit.register(lambda: {look}); from perflog.cli import main; main()"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, *args.split()], env=env, capture_output=True, text=True)
    assert done.stdout.endswith("[]\n")


def test_a_reader_that_goes_away_is_no_error() -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "perflog", "show", MOE, "phases", "--format", "json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_interrupt_leaves_no_traceback(work: Path) -> None:
    import signal

    os.mkfifo("pipe")
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "perflog", "ingest", "pipe"]
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, usual)
    with process, open("pipe", "wb"):  # opened from both sides: the command is reading now
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_colour_only_on_a_terminal_and_if_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty")
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}

    def seen(**more: str) -> str:
        parent, child = pty.openpty()
        command = [sys.executable, "-m", "perflog", "formats", "list"]
        with subprocess.Popen(command, env=env | more, stdout=child) as process:
            os.close(child)
            parts = list[bytes]()
            with suppress(OSError):  # the other end is closed
                while part := os.read(parent, 1 << 16):  # a terminal holds few bytes: what it shows must be read
                    parts.append(part)
        os.close(parent)
        assert process.returncode == 0
        return b"".join(parts).decode()

    assert "\x1b[" in seen()
    assert "\x1b[" not in seen(NO_COLOR="1")
    assert "\x1b[" not in perflog("formats", "list").stdout


@pytest.mark.parametrize("sample", ["moe_layer.txt", "training_sweep.txt"])
def test_a_label_once_given_stays_when_the_log_is_read_again(tmp_path: Path, sample: str) -> None:
    log, store = TESTS / "data" / sample, str(tmp_path / "store")
    run("ingest", str(log), "--store", store, "--label", "base")
    first = run("runs", "--store", store, "--format", "json").stdout
    assert '"base' in first
    run("ingest", str(log), "--store", store)
    assert run("runs", "--store", store, "--format", "json").stdout == first


# --- names of runs -----------------------------------------------------------------------------------------------


def test_analyze_names_runs_as_the_reader_does() -> None:
    """A run without a label has the name of its log, with its number where the log has several; programs get the id."""
    for name, loss in (("a.jsonl", 2.5), ("b.jsonl", 2.4)):
        Path("both").mkdir(exist_ok=True)
        Path("both", name).write_text(f'{{"step": 1, "loss": 3.0}}\n{{"step": 2, "loss": {loss}}}\n')
    title, head, *_ = run("analyze", "both/a.jsonl", "curves").stdout.splitlines()
    assert title == "curves of a.jsonl"
    assert "run" not in head.split()
    title, head, *lines = run("analyze", "both", "curves").stdout.splitlines()
    assert (title, head.split()[0]) == ("curves", "run")
    assert [line.split()[0] for line in lines if "loss" in line] == ["a.jsonl", "b.jsonl"]
    ids = {row["run"] for row in told("analyze", "both", "curves", "--format", "json")["curves"]}
    assert len(ids) == 2 and not ids & {"a.jsonl", "b.jsonl"}


def test_analyze_numbers_a_run_of_a_log_of_several() -> None:
    text = Path(MOE).read_text()
    Path("twice.txt").write_text(text + text)
    assert run("analyze", "twice.txt#2", "steps").stdout.splitlines()[0] == "step times of twice.txt#2"
