"""`--guess` reads a log that nothing describes, and every row says that it is a guess."""

from __future__ import annotations

from pathlib import Path

import pytest
from pandas import isna
from support.commands import run, told

import perflog
from perflog.errors import InputError
from perflog.ingestion import workers
from perflog.ingestion.suggest import suggest

LINES = [f"after iteration {k} the loss is {9 / (k + 1):.2f}, at {30 + k:.1f} ms/step" for k in range(5)]
KNOWN = [f"iter {k}: loss 5.4983, time 337.52ms, mfu 0.96%" for k in range(3)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_a_guess_reads_all_figures_and_marks_its_rows(log: Path) -> None:
    with pytest.raises(InputError, match="nothing in it is recognised") as error:
        perflog.read(log)
    assert f"perflog ingest --guess {log}" in error.value.help
    read = perflog.read(log, guess=True)
    steps = read.table("steps")
    assert steps["loss"].tolist() == [9.0, 4.5, 3.0, 2.25, 1.8]
    assert steps["step_time_s"].tolist() == pytest.approx([0.030, 0.031, 0.032, 0.033, 0.034])
    assert set(steps["read_by"]) == {"guess"} and read.runs["format"].tolist() == ["guess"]
    assert read.figure_account == {"total": 15, "stored": 15, "dropped": 0, "unread": 0}


def test_a_file_that_no_format_reads_is_guessed_where_it_is_named(log: Path) -> None:
    """The commands that show a log do so; Python, folders and stores ask for it."""
    read = perflog.find_runs(str(log))
    assert read.table("steps")["loss"].tolist() == [9.0, 4.5, 3.0, 2.25, 1.8]
    assert read.warnings == [f"{log}: names, units and tables are guesses; `perflog lint` names the rows"]
    told = " ".join(run("overview", log).output.split())
    assert "names, units and tables are guesses" in told and "guessed: " not in told
    with pytest.raises(InputError, match="nothing in it is recognised"):
        perflog.find_runs(str(log.parent))
    run("ingest", log, code=3)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join([*(f"This page has a sentence {k}x." for k in range(20)), "loss: 3.2", "time: 4 ms"]),
        "\n".join(f"row {k} of 12 3 4 5 has 3 things" for k in range(9)),
        "",
    ],
)
def test_a_text_that_is_no_log_is_not_guessed(log: Path, text: str) -> None:
    log.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        perflog.find_runs(str(log))


def test_a_guess_reads_with_processes_too(log: Path) -> None:
    with workers.allowed():
        assert perflog.read(log, guess=True).runs["format"].tolist() == ["guess"]


def test_a_guess_adds_to_what_formats_read(log: Path) -> None:
    log.write_text("\n".join([*KNOWN, *LINES]) + "\n", encoding="utf-8")
    steps = perflog.read(log, guess=True).table("steps")
    assert (steps["read_by"].isna().sum(), (steps["read_by"] == "guess").sum()) == (3, 5)
    log.write_text("\n".join(KNOWN) + "\n", encoding="utf-8")
    plain, guessed = perflog.read(log), perflog.read(log, guess=True)
    assert guessed.table("steps").equals(plain.table("steps"))


def test_a_guess_of_a_torn_log_cuts_no_line_of_a_format(log: Path) -> None:
    whole = [f"iter {k}: loss 5.{k}983, time 337.52ms, mfu 0.96%" for k in range(9)]
    torn = [f"loss 5.{k}983, time 337.52ms" for k in range(4)]
    log.write_text("\n".join([*whole, *torn, "host 3: up", *whole]) + "\n", encoding="utf-8")
    plain, guessed = perflog.read(log), perflog.read(log, guess=True)
    assert guessed.table("steps")["loss"].notna().sum() >= plain.table("steps")["loss"].notna().sum() == 18
    assert guessed.figure_account["stored"] >= plain.figure_account["stored"]


def test_a_guess_without_a_name_leaves_what_is_read_anyway(log: Path) -> None:
    log.write_text("0 1 2\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", encoding="utf-8")
    plain, guessed = perflog.read(log), perflog.read(log, guess=True)
    assert len(guessed.table("failures")) == len(plain.table("failures")) == 1


def test_neither_a_guess_nor_a_suggested_file_names_the_numbers_of_a_failure(log: Path) -> None:
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. reserved: 12.5"
    log.write_text("\n".join([*LINES, message]) + "\n", encoding="utf-8")
    read = perflog.read(log, guess=True)
    assert read.figure_account == {"total": 17, "stored": 15, "dropped": 2, "unread": 0}
    assert "OutOfMemory" not in suggest(str(log))


def test_a_guess_takes_no_message_from_the_failures(log: Path) -> None:
    fault = "HW Exception by GPU node-9 (Agent handle: 0x{}) reason :GPU Hang\n"
    faults = [fault.format(handle) for handle in ("631351bb5a20", "64ff272d8ab0", "565d634d8610")]
    record = "{'loss': 0.4589, 'grad_norm': 1.25, 'learning_rate': 5.25e-06, 'epoch': 1.22}\n"
    bar = " 41%|####      | 366/903 [5:15:39<6:53:09, 46.16s/it]"
    log.write_text(f"{record}{bar}{''.join(faults)}wave: 2.5\n", encoding="utf-8")
    plain, guessed = perflog.read(log), perflog.read(log, guess=True)
    assert guessed.table("failures")["line"].tolist() == plain.table("failures")["line"].tolist() == [2, 3, 4]
    assert guessed.table("values")["key"].tolist()[-1] == "wave"


def test_a_store_keeps_the_mark(log: Path, tmp_path: Path) -> None:
    (done,) = told("ingest", "--guess", "--json", "--store", tmp_path / "store", log)["logs"]
    assert done["format"] == "guess" and done["tables"]["steps"] == 5
    stored = perflog.ingest(log, store=tmp_path / "other", guess=True)
    assert set(stored.table("steps")["read_by"]) == {"guess"}


@pytest.mark.parametrize("command", [("show", "mine"), ("analyze", "mine", "--full")])
def test_commands_warn_that_a_run_is_a_guess(command: tuple[str, ...], log: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    run("ingest", "--guess", "--label", "mine", "--store", store, log)
    told_by = run(*command, "--store", store).stderr
    assert "mine: names, units and tables are guesses; `perflog lint` names the rows" in told_by


def test_a_comparison_warns_that_a_side_is_a_guess(log: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    for label in ("base", "new"):
        log.write_text(f"{label}\n" + log.read_text("utf-8"), encoding="utf-8")
        run("ingest", "--guess", "--label", label, "--store", store, log)
    assert "new: names, units and tables are guesses" in run("compare", "base", "new", "--store", store).stderr


def test_a_guess_cannot_read_words(log: Path) -> None:
    log.write_text("only words here\n" * 9, encoding="utf-8")
    assert "has only words" in run("ingest", "--guess", "--store", log.parent / "s", log, code=3).stderr


def test_a_trace_is_read_as_always(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(
        '{"traceEvents": [{"ph": "X", "name": "k", "cat": "kernel", "ts": 1, "dur": 2, "pid": 0, "tid": 7}]}'
    )
    assert len(perflog.read(trace, guess=True).table("events")) == 1


def suggested(path: Path, text: str) -> perflog.Log:
    """Return a log that is read with the suggested format file. Generic formats would read most such logs."""
    path.write_text(text, encoding="utf-8")
    form = path.with_suffix(".toml")
    form.write_text(suggest(str(path)), encoding="utf-8")
    run("formats", "check", form)
    return perflog.read(path, format=str(form))


def values(path: Path, text: str) -> list[tuple[str, float, str | None]]:
    """Return key, value and unit of the rows of `values` that a suggested file reads from a log."""
    rows = suggested(path, text).table("values").astype(object)
    return [(k, v, None if isna(u) else u) for k, v, u in zip(rows["key"], rows["value"], rows["unit"], strict=True)]


CSV = """\
epoch,train_loss,val_loss,lr,epoch_time_s,note
0,2.31,2.20,0.001,12.4,a
1,1.92,2.01,0.001,12.1,b
2,1.71,,0.0005,12.2,c
"""
SMI = """\
timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]
2024/01/01 10:00:00.123, 0, 93 %, 40536 MiB, 310.21 W
2024/01/01 10:00:01.123, 1, 94 %, 40536 MiB, 311.21 W
"""


def test_a_csv_header_names_the_columns(log: Path) -> None:
    rows = values(log, CSV)
    assert [r for r in rows if r[0] != "note"][-4:] == [
        ("epoch", 2, None),
        ("train_loss", 1.71, None),
        ("lr", 0.0005, None),
        ("epoch_time", 12.2, "s"),
    ]
    assert suggested(log, CSV).figure_account == {"total": 14, "stored": 14, "dropped": 0, "unread": 0}


def test_cells_and_headers_of_csv_print_units(log: Path) -> None:
    assert [row for row in values(log, SMI) if row[0] not in ("timestamp", "name")][:4] == [
        ("index", 0, None),
        ("utilization_gpu", 0.93, "1"),
        ("memory_used", 40536 * 2**20, "B"),
        ("power_draw", 310.21, "W"),
    ]


def test_a_csv_with_steps_fills_table_steps(log: Path) -> None:
    read = suggested(log, "step,loss,step_time_ms,pid\n1,2.5,12.5,7\n2,2.25,11.5,7\n")
    steps = read.table("steps")
    assert steps[["step", "loss", "step_time_s"]].to_numpy().tolist() == [[1, 2.5, 0.0125], [2, 2.25, 0.0115]]
    assert read.figure_account == {"total": 8, "stored": 8, "dropped": 0, "unread": 0}


def test_all_objects_give_their_keys(log: Path) -> None:
    objects = (
        '{"kind": "gpu", "util": 93, "pid": 44}\n{"kind": "val", "val": {"acc": 0.5}}\n{"kind": "gpu", "fan": 3}\n'
    )
    assert [row for row in values(log, objects) if row[0] != "kind"] == [
        ("util", 93, None),
        ("val.acc", 0.5, None),
        ("fan", 3, None),
    ]


def test_an_epoch_is_no_step_and_a_time_without_unit_has_none(log: Path) -> None:
    lines = "".join(f"after epoch {k} the loss is {2 - k / 4} and it took time={k + 300.5}\n" for k in range(4))
    rows = values(log, lines)
    assert rows[:3] == [("epoch", 0, None), ("loss", 2.0, None), ("time", 300.5, None)]
    assert not len(suggested(log, lines).table("steps"))


def test_a_number_with_a_unit_is_not_the_number_before_it(log: Path) -> None:
    lines = "".join(f"batch {k}/3 loss {2 - k / 4} {k + 12.5} ms\n" for k in range(4))
    assert ("time", 0.0125, "s") in values(log, lines)
    log.write_text("".join(f"step {k}: loss {2 - k / 4}, {k + 12.5} ms\n" for k in range(4)), encoding="utf-8")
    assert "loss_2" not in set(perflog.read(log, guess=True).table("values")["key"])


def test_a_unit_that_varies_is_no_word_that_varies(log: Path) -> None:
    log.write_text("".join(f"fetch done in {time}, wave: 2.5\n" for time in ("12 ms", "1.5 s", "850 us")), "utf-8")
    rows = perflog.read(log, guess=True).arrow("values").to_pylist()
    times = [row["value"] for row in rows if row["key"] == "fetch_done"]
    assert times == pytest.approx([0.012, 1.5, 0.00085])


def test_a_word_that_varies_names_no_number(log: Path) -> None:
    words = [f"op{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(80)]
    log.write_text("".join(f"timing {word} took: {k}.5 ms, wave: 2.5\n" for k, word in enumerate(words)), "utf-8")
    rows = perflog.read(log, guess=True).arrow("values").to_pylist()
    assert {row["key"] for row in rows if row["value"] is not None} == {"wave"}


def test_process_ids_and_places_in_the_source_are_no_figures(log: Path) -> None:
    lines = "".join(f"[worker.py:{k + 20}] pid {k + 700} cached {k} blocks\n" for k in range(4))
    assert [row[1] for row in values(log, lines)] == [0, 1, 2, 3]


@pytest.mark.parametrize("epoch", ["", "epoch {}\n"])
def test_steps_that_restart_with_an_epoch_are_one_run(epoch: str, log: Path) -> None:
    parts = (f"setting up with warmup={k}\n{epoch.format(k)}" for k in range(3))
    steps = "".join(f"at step {k} we lost {2 - k / 4} loss in {k + 12.5} ms\n" for k in range(3))
    log.write_text("".join(part + steps for part in parts), encoding="utf-8")
    assert len(suggested(log, log.read_text("utf-8")).runs) == (1 if epoch else 3)


DARKNET = """\
 10: 1630.738525, 1685.839600 avg loss, 0.000000 rate, 4.303994 seconds, 1280 images, 10.956437 hours left
...
 186: 714.564453, 1032.841675 avg loss, 0.000000 rate, 4.592934 seconds, 23808 images, 8.222052 hours left
...
 700: 1.113163, 1.076701 avg loss, 0.000015 rate, 4.974880 seconds, 89600 images, 6.471217 hours left
"""


def test_a_number_that_grows_line_by_line_is_no_rank(log: Path) -> None:
    table = suggested(log, DARKNET.replace("...\n", "")).table("values")
    assert table["rank"].isna().all()
    assert {10, 186, 700} <= set(table["value"])


def test_rows_under_a_known_header_stay_with_their_format(log: Path) -> None:
    data = (Path(__file__).parent.parent / "data" / "nvprof_gpu_trace.txt").read_bytes()
    log.write_bytes(data)
    plain, guessed = perflog.read(log), perflog.read(log, guess=True)
    assert guessed.table("kernels").equals(plain.table("kernels")) and guessed.figure_account == plain.figure_account


def test_a_format_that_shows_late_reads_its_lines(log: Path) -> None:
    log.write_text("".join(f"cached {k} blocks\n" for k in range(60_000)) + "\n".join(KNOWN) + "\n", encoding="utf-8")
    steps = perflog.read(log, guess=True).table("steps")
    assert len(steps) == 3 and steps["read_by"].isna().all()


def test_settings_alone_are_no_suggestion_without_rows(log: Path) -> None:
    assert values(log, "cache blocks 8\n") == [("cache_blocks", 8, None)]


NAMED = {  # lines of public programs, and what a suggested file reads from one of them
    "Overall img/sec on {k} GPU(s): {x:.1f} +-{k}.4": [
        ("gpu", 0),
        ("overall_img_per_sec", 0.5),
        ("overall_img_per_sec_spread", 0.4),
    ],
    "[  5] {k}.00-{k}.50   sec  1.09 GBytes  {x:.2f} Gbits/sec": [("gbytes", 1.09), ("bandwidth", 0.0625)],
    "eval time = {x:.2f} ms / {k} runs ( 25.12 ms per token, 39.81 tokens per second)": [
        ("eval_time", 0.0005),
        ("runs", 0),
        ("per_token", 0.02512),
        ("tokens_per_s", 39.81),
    ],
    "[{k}]\ttrain-rmse:{x:.5f}\teval-rmse:{x:.5f}": [("train_rmse", 0.5), ("eval_rmse", 0.5)],
    "Average objective for 'output' is {x:.5f} over 8000 frames.": [
        ("output", 0.5),
        ("frames", 8000),
    ],
}


@pytest.mark.parametrize("text", NAMED)
def test_a_number_has_no_name_of_another(text: str, log: Path) -> None:
    lines = "".join(text.format(k=k, x=k + 0.5) + "\n" for k in range(4))
    read = suggested(log, lines)
    rows = [*read.table("values").itertuples(), *read.table("summaries").itertuples()]
    first = [(row.key, row.value) for row in rows if row.line == 1 and not row.key.startswith("number")]
    assert first == [(key, pytest.approx(value)) for key, value in NAMED[text]]
    assert read.figure_account["unread"] == 0


def test_words_after_a_number_without_a_name_tell_the_names_of_lines_apart(log: Path) -> None:
    text = "".join(f"[dump, 444] [ROOT][{what} time] HOST : 5 US\n" for what in ("RPC", "NPU", "QNN NPU"))
    keys = [key for key, _, _ in values(log, text) if not key.startswith("number")]
    assert keys == ["rpc_time_host", "npu_time_host", "qnn_npu_time_host"]


def test_times_before_rates_tell_their_names_apart(log: Path) -> None:
    rate = "(seconds)\t\t Rate: \t{} (tokens/second)\n"
    text = f"Prompt evaluation:\t0.056 {rate.format(553.5)}\t\tGenerated 96 tokens:\t1.7 {rate.format(54.5)}"
    rates = [key for key, value, _ in values(log, text) if value in (553.5, 54.5)]
    assert rates == ["prompt_evaluation_rate", "tokens_rate"]


def test_a_header_right_above_its_rows_names_the_columns(log: Path) -> None:
    rows = "".join(f"{k * 100:8d} {300 + k:12.6f} {-5 - k:12.7f}\n" for k in range(4))
    assert values(log, f"Step Temp E_pair\n{rows}")[-2:] == [("Temp", 303, None), ("E_pair", -8, None)]
    assert not {"Temp", "E_pair"} & {
        key for key, _, _ in values(log, f"Step Temp E_pair\n\nother\n\nlines\n\n\n{rows}")
    }


def test_a_guess_reads_lines_like_those_of_formats_that_the_log_is_not_in(log: Path) -> None:
    log.write_text("".join(f"|    fps             | {1200 + k}     |\n" for k in range(4)), encoding="utf-8")
    assert perflog.read(log, guess=True).table("values")["value"].tolist() == [1200, 1201, 1202, 1203]


def test_lists_of_numbers_are_kept_as_text(log: Path) -> None:
    log.write_text("".join(f"masks = [{k}, 5, 6]\n" for k in range(4)), encoding="utf-8")
    read = perflog.read(log, guess=True)
    assert read.table("values")["text"].tolist()[:2] == ["[0, 5, 6]", "[1, 5, 6]"]
    assert read.figure_account == {"total": 12, "stored": 12, "dropped": 0, "unread": 0}
    bare = "".join(f"[{k}, 2, 3]\n" for k in range(4))
    assert suggested(log, bare).figure_account["unread"] == 0
    with pytest.raises(InputError, match="no word names its numbers without doubt"):
        perflog.read(log, guess=True)
