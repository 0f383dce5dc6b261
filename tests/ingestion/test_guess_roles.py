"""A guess gives a number a role (step, rank, step time, unit) only if the log bears it out; else it is a number."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import Reading, read

import perflog
from perflog.errors import InputError
from perflog.formats import registry
from perflog.ingestion import suggest

WORDS = ("alpha", "beta", "gamma", "delta")


def guessed(folder: Path, lines: list[str]) -> Reading:
    """Return a log that is read with the format file suggested for it, which `perflog formats check` accepts."""
    data = ("\n".join(lines) + "\n").encode()
    log, form = folder / "run.txt", folder / "own.toml"
    log.write_bytes(data)
    form.write_text(suggest.suggest(str(log)), encoding="utf-8")
    return read(data, formats=[registry.get(str(form))])


def steps_of(got: Reading) -> dict[int, int | None]:
    """Return the step of each line that has rows."""
    rows = [row for table in ("steps", "values", "phases") for row in got.rows(table)]
    return {row["line"]: row["step"] for row in rows}


# --- principles -----------------------------------------------------------------------------------------------------

COUNTERS = ("step {k}: ", "iter {k} | ", "[{k}/9999] ", "iteration {k}, ", "{k}/9999 - ")
FIGURES = ("loss {x:.3f} wave {y:.2f}", "loss = {x:.3f}, wave = {y:.2f}", "wave: {y:.2f} loss: {x:.3f}")


@examples(6)
@given(
    st.sampled_from(COUNTERS), st.sampled_from(FIGURES), st.integers(0, 500), st.integers(1, 50), st.integers(2, 12),
    st.booleans(),
)  # fmt: skip
def test_a_counter_that_grows_is_the_step_or_a_number(
    tmp_path_factory: pytest.TempPathFactory, counter: str, figures: str, first: int, by: int, count: int, again: bool
) -> None:
    truth = [first + by * k for k in range(count)] * (2 if again else 1)
    lines = [(counter + figures).format(k=k, x=3 - n / 99, y=n + 0.25) for n, k in enumerate(truth)]
    got = guessed(tmp_path_factory.getbasetemp(), lines)
    assert all(step in (None, truth[line - 1]) for line, step in steps_of(got).items())
    assert [row["step"] for row in got.rows("steps")] in (truth, [])
    assert [row["step"] for row in got.rows("steps")] == truth or "/" in counter
    assert all(row["steps_averaged"] in (None, 1) for row in got.rows("steps"))


@examples(6)
@given(
    st.sampled_from(COUNTERS), st.sampled_from(FIGURES), st.lists(st.integers(0, 999), min_size=8, max_size=16),
    st.sampled_from(["random", "constant", "single"]),
)  # fmt: skip
def test_a_number_that_does_not_grow_is_no_step(
    tmp_path_factory: pytest.TempPathFactory, counter: str, figures: str, numbers: list[int], kind: str
) -> None:
    if kind == "random":
        numbers = [0, *(1000 + x + 2000 * (k % 2) + k for k, x in enumerate(numbers))]  # up and down
    truth = {"random": numbers, "constant": numbers[:1] * len(numbers), "single": numbers[:1]}[kind]
    lines = [(counter + figures).format(k=k, x=3 - n / 99, y=n + 0.25) for n, k in enumerate(truth)]
    got = guessed(tmp_path_factory.getbasetemp(), lines)
    assert not got.rows("steps") and set(steps_of(got).values()) <= {None}
    stored = {(row["line"], row["value"]) for row in [*got.rows("values"), *got.rows("summaries")]}
    settings = got.rows("runs")[0]["config"] if not stored else ""
    assert all((n, k) in stored for n, k in enumerate(truth, 1)) or str(truth[0]) in settings


@examples(6)
@given(st.integers(2, 8), st.integers(2, 5), st.booleans())
def test_a_rank_is_small_and_comes_back(
    tmp_path_factory: pytest.TempPathFactory, ranks: int, rounds: int, is_rank: bool
) -> None:
    truth = [r for _ in range(rounds) for r in range(ranks)] if is_rank else [17 * k + 9 for k in range(ranks * rounds)]
    lines = [f"rank {r} waited for data: {k + 0.5:.3f} ms" for k, r in enumerate(truth)]
    rows = [
        row for t in ("values", "phases", "steps") for row in guessed(tmp_path_factory.getbasetemp(), lines).rows(t)
    ]
    found = {(row["line"], row["rank"]) for row in rows}
    assert found == {(k, r if is_rank else None) for k, r in enumerate(truth, 1)}


UNITS = {
    " ms": 1e-3,
    "ms": 1e-3,
    " s": 1,
    " sec": 1,
    "s": 1,
    "": None,
    " img/sec": None,
    " GPU(s)": None,
    " steps": None,
}


@examples(20)
@given(st.sampled_from(sorted(UNITS)), st.sampled_from(WORDS), st.floats(0.5, 900).map(lambda x: round(x, 2)))
def test_a_time_has_a_unit_that_stands_behind_it(
    tmp_path_factory: pytest.TempPathFactory, unit: str, word: str, value: float
) -> None:
    lines = [f"in {word} img/sec on GPU(s): {value + k:.2f}{unit} {'and so on' if unit else ''}" for k in range(4)]
    rows = guessed(tmp_path_factory.getbasetemp(), lines).rows("values")
    times = {row["line"]: row["value"] for row in rows if row["unit"] == "s"}
    factor = UNITS[unit]
    truth = {k + 1: (value + k) * factor for k in range(4)} if factor else {}
    assert set(times) <= set(truth)
    assert all(math.isclose(times[line], truth[line], rel_tol=1e-9, abs_tol=1e-4) for line in times)


@examples(6)
@given(
    st.lists(st.floats(0.5, 900).map(lambda x: round(x, 2)), min_size=4, max_size=9), st.integers(1, 9), st.booleans()
)
def test_a_plain_time_is_a_step_time_only_if_each_step_is_printed(
    tmp_path_factory: pytest.TempPathFactory, times: list[float], by: int, is_clock: bool
) -> None:
    times = sorted(times) if is_clock else [*times, 0.25]
    lines = [f"step {by * k}: loss {2 - k / 99:.3f}, time {t:.2f} ms" for k, t in enumerate(times)]
    rows = guessed(tmp_path_factory.getbasetemp(), lines).rows("steps")
    step_times = [row["step_time_s"] for row in rows]
    assert len(rows) == len(times)
    proven = by == 1 and not is_clock
    assert step_times == ([pytest.approx(t / 1000) for t in times] if proven else [None] * len(times))


def suggested(path: Path) -> perflog.Log:
    """Return a log that is read with the format file suggested for it. It names each number, with doubt or without."""
    form = path.with_suffix(".toml")
    form.write_text(suggest.suggest(str(path)), encoding="utf-8")
    return perflog.read(path, format=str(form))


# --- cases ----------------------------------------------------------------------------------------------------------


def figures(path: Path, text: str) -> list[tuple[int, str, float | None, str | None]]:
    """Return what a suggested file stores of each line but the settings: line, key or column, number, unit; by line."""
    path.write_text(text, encoding="utf-8")
    log = suggested(path)
    assert log.figure_account["unread"] == 0
    rows: list[tuple[int, str, float | None, str | None]] = []
    for table in ("steps", "values", "summaries", "phases"):
        for row in log.arrow(table).to_pylist():
            if table != "steps":
                step = [(row["line"], "step", row["step"], None)] if row.get("step") is not None else []
                name = row["phase"] if table == "phases" else row["key"]
                rows += [*step, (row["line"], name, row["time_s" if table == "phases" else "value"], row.get("unit"))]
                continue
            numbers = {k: v for k, v in row.items() if isinstance(v, int | float) and k not in NOT_PRINTED}
            rows += [(row["line"], key, value, None) for key, value in numbers.items()]
    return sorted(set(rows), key=str)


NOT_PRINTED = ("run", "line", "part", "copy", "steps_averaged", "step_time_from")

CASES: dict[str, tuple[str, list[tuple[int, str, float | None, str | None]]]] = {
    "horovod": (
        "    Img/sec per GPU: 352.5 +-3.0\n    Total img/sec on 16 GPU(s): 5640.2 +-47.2\n",
        [
            (1, "img_sec_per_gpu", 352.5, None), (1, "img_sec_per_gpu_spread", 3.0, None),
            (2, "gpu", 16, None), (2, "total_img_per_sec", 5640.2, "1/s"), (2, "total_img_per_sec_spread", 47.2, "1/s"),
        ],
    ),
    "keras with one line for each epoch": (
        ("    Epoch 17/30\n    3/3 - 0s - loss: 0.4609 - val_loss: 0.5240\n"
        "    Epoch 18/30\n    3/3 - 0s - loss: 0.3481 - val_loss: 0.5235\n"),
        [
            (1, "epoch", 17, None), (1, "epochs", 30, None), (2, "loss", 0.4609, None),
            (2, "number_1_of_loss_val", 3, None), (2, "number_2_of_loss_val", 3, None), (2, "time", 0, "s"),
            (2, "val_loss", 0.524, None), (3, "epoch", 18, None), (3, "epochs", 30, None), (4, "loss", 0.3481, None),
            (4, "number_1_of_loss_val", 3, None), (4, "number_2_of_loss_val", 3, None), (4, "time", 0, "s"),
            (4, "val_loss", 0.5235, None),
        ],
    ),
    "dlrm": (
        ("Finished training it 1/3 of epoch 0, -1.00 ms/it, loss 0.451893, accuracy 0.000%\n"
        "Finished training it 2/3 of epoch 0, -1.00 ms/it, loss 0.402002, accuracy 0.000%\n"),
        [
            (1, "accuracy", 0, "1"), (1, "epoch", 0, None), (1, "loss", 0.451893, None), (1, "step", 1, None),
            (2, "accuracy", 0, "1"), (2, "epoch", 0, None), (2, "loss", 0.402002, None), (2, "step", 2, None),
        ],
    ),
    "darknet": (
        (" 402: 27.874079, 27.874079 avg loss, 0.000068 rate, 9.233807 seconds, 25728 images, -1.000000 hours left\n"
        " 404: 27.877659, 27.874437 avg loss, 0.000072 rate, 8.956024 seconds, 25856 images, 1282.733183 hours left\n"),
        [
            (1, "avg_loss", 27.874079, None), (1, "images", 25728, None),
            (1, "number_1_of_avg_loss", 402, None), (1, "number_2_of_avg_loss", 27.874079, None),
            (1, "rate", 0.000068, None), (1, "time", 9.233807, "s"), (1, "time_2", -1, None),
            (2, "avg_loss", 27.874437, None), (2, "images", 25856, None),
            (2, "number_1_of_avg_loss", 404, None), (2, "number_2_of_avg_loss", 27.877659, None),
            (2, "rate", 0.000072, None), (2, "time", 8.956024, "s"), (2, "time_2", 1282.733183, None),
        ],
    ),
    "marian": (
        ("[23:22:42] Ep. 1 : Up. 500 : Cost 6.01253986 * 414,436 after 414,436 : Time 609.91s : 679.50 words/s\n"
        "[23:32:41] Ep. 1 : Up. 1000 : Cost 4.39333200 * 412,771 after 827,207 : Time 599.31s : 688.74 words/s\n"),
        [
            (1, "cost", 6.01253986, None), (1, "ep", 1, None), (1, "number_4_of_ep_up", 414436, None),
            (1, "number_5_of_ep_up", 414436, None), (1, "time", 609.91, "s"), (1, "up", 500, None),
            (1, "words_per_s", 679.5, "1/s"),
            (2, "cost", 4.393332, None), (2, "ep", 1, None), (2, "number_4_of_ep_up", 412771, None),
            (2, "number_5_of_ep_up", 827207, None), (2, "time", 599.31, "s"), (2, "up", 1000, None),
            (2, "words_per_s", 688.74, "1/s"),
        ],
    ),
    "like composer": (
        "[epoch=1 batch=5/5]:\n         Fit loss/train/total: 8.4213\n         Fit time/batch: 4\n",
        [
            (1, "batch", 5, None), (1, "batches", 5, None), (1, "epoch", 1, None),
            (2, "fit_loss_train_total", 8.4213, None), (3, "fit_time_batch", 4, None),
        ],
    ),
    "cyclegan": (
        "(epoch: 1, iters: 200, time: 0.226, data: 0.002) D_A: 0.206 G_A: 0.293 cycle_A: 2.389 \n",
        [
            (1, "cycle_a", 2.389, None), (1, "d_a", 0.206, None), (1, "data", 0.002, None), (1, "epoch", 1, None),
            (1, "g_a", 0.293, None), (1, "iters", 200, None), (1, "time", 0.226, None),
        ],
    ),
    "nnunet": (
        ("        2021-06-21 08:13:03.056420: \n        epoch:  226\n"
            "        2021-06-21 08:17:05.605214: train loss : -0.7531\n"),
        [(2, "epoch", 226, None), (3, "train_loss", -0.7531, None)],
    ),
    "espnet": (
        ("[host] 2020-04-05 16:34:54,278 (trainer:192) INFO: 2/40epoch started. "
            "Estimated time to finish: 7 minutes and 58.63 seconds\n"
        "[host] 2020-04-05 16:34:56,315 (trainer:453) INFO: 2epoch:train:1-10batch: iter_time=0.006, loss=50.873\n"),
        [
            (1, "estimated_time_to_finish", 478.63, "s"), (1, "number_1_of_host_info", 2, None),
            (2, "iter_time", 0.006, None), (2, "loss", 50.873, None),
        ],
    ),
    "like olmo": (
        ("2025-12-12 11:05:02.009\tquick-rain-03:0\tacme.fit:979\tINFO\t[step=1/15000 epoch=0]\n"
        "    fit/Perplexity=20.04\n"
        "2025-12-12 11:05:05.850\tquick-rain-03:0\tacme.fit:979\tINFO\t[step=2/15000 epoch=0]\n"
        "    fit/Perplexity=18.52\n"),
        [
            (1, "epoch", 0, None), (1, "step", 1, None), (1, "steps", 15000, None),
            (2, "fit_perplexity", 20.04, None),
            (3, "epoch", 0, None), (3, "step", 2, None), (3, "steps", 15000, None),
            (4, "fit_perplexity", 18.52, None),
        ],
    ),
    "tf_cnn_benchmarks": (
        ("Done warm up\nStep\tImg/sec\ttotal_loss\n1\timages/sec: 127.9 +/- 0.0 (jitter = 0.0)\t7.608\n"
        "10\timages/sec: 126.4 +/- 0.2 (jitter = 0.4)\t7.849\n"),
        [
            (3, "jitter", 0, None), (3, "loss", 7.608, None), (3, "samples_per_s", 127.9, None),
            (3, "samples_per_s_spread", 0, "1/s"), (3, "step", 1, None),
            (4, "jitter", 0.4, None), (4, "loss", 7.849, None), (4, "samples_per_s", 126.4, None),
            (4, "samples_per_s_spread", 0.2, "1/s"), (4, "step", 10, None),
        ],
    ),
    "tf_cnn_benchmarks behind a launcher": (
        ("INFO|2024-12-07T14:06:56|/opt/launcher.py|27| 90        images/sec: 82.9 +/- 0.8 (jitter = 4.8) 7.929\n"
        "INFO|2024-12-07T14:07:00|/opt/launcher.py|27| 100       images/sec: 83.3 +/- 0.8 (jitter = 4.7) 7.886\n"),
        [
            (1, "images_per_s", 82.9, "1/s"), (1, "images_per_s_spread", 0.8, "1/s"), (1, "jitter", 4.8, None),
            (1, "number_1_of_info_images", 90, None), (1, "number_5_of_info_images", 7.929, None),
            (2, "images_per_s", 83.3, "1/s"), (2, "images_per_s_spread", 0.8, "1/s"), (2, "jitter", 4.7, None),
            (2, "number_1_of_info_images", 100, None), (2, "number_5_of_info_images", 7.886, None),
        ],
    ),
    "rows of a table that end in bars, as of Ultralytics": (
        ("      Epoch    Memory    box_loss  Instances       Size\n"
        "       1/25     0.721       1.222          5        512: 100% ━━━━━━━━━━━━ 1126/1126 9.1it/s 2:04\n"
        "                 Class     Images      Box(P      mAP50  mAP50-95): 100% ━━━━━━━━━━━━ 94/94 10.0it/s 9.4s\n"
        "                   all       1500      0.823       0.82      0.482\n"),
        [
            (2, "Epoch", 1, None), (2, "Epoch_total", 25, None), (2, "Memory", 0.721, None),
            (2, "Instances", 5, None), (2, "Size", 512, None), (2, "box_loss", 1.222, None),
            (4, "Box_P", 0.823, None), (4, "Class", None, None), (4, "Images", 1500, None), (4, "mAP50", 0.82, None),
            (4, "mAP50_95", 0.482, None),
        ],
    ),
    "a box with sections, as of stable-baselines3": (
        ("| time/                   |           |\n|    game_speed           | 202       |\n"
        "|    game_moves           | 229376    |\n| train/                  |           |\n"
        "|    loss                 | -0.0404   |\n|    value_loss           | 1.11e-05  |\n"),
        [
            (2, "game_speed", 202, None), (3, "game_moves", 229376, None), (5, "loss", -0.0404, None),
            (6, "value_loss", 1.11e-05, None),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", CASES)
def test_the_figures_of_public_programs(program: str, tmp_path: Path) -> None:
    text, truth = CASES[program]
    stored = figures(tmp_path / "run.txt", text)
    expected: list[Any] = [(line, key, pytest.approx(value), unit) for line, key, value, unit in sorted(truth, key=str)]
    assert stored == expected


def test_two_processes_on_one_series_keep_their_steps(tmp_path: Path) -> None:
    """A line glued to the label of another one has the step that other lines of its kind prove."""
    form = "ray  | [{}] Finished training it {}/150 of epoch 0, 439.75 ms/it, loss 0.5{}, accuracy 74.972 %{}"
    lines = [form.format(k % 2, 16 * (1 + k // 2), k, "[0] " if k == 2 else "") for k in range(6)]
    path = tmp_path / "run.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    steps = perflog.read(path, guess=True).table("steps").sort_values("line")
    assert steps["step"].tolist() == [16, 16, 32, 32, 48, 48]
    assert steps["step_time_s"].tolist() == pytest.approx([0.43975] * 6)


def test_values_between_step_lines_have_the_step_of_no_other_line(tmp_path: Path) -> None:
    lines = [
        line for k in range(4) for line in (f"step {k}: loss {2 - k / 9:.3f}, {k + 2.5} ms/step", f"cached {k} rows")
    ]
    got = guessed(tmp_path, ["wrote 3.5 files", *lines])
    assert {row["key"]: row["step"] for row in got.rows("values")} == {"wrote": None, "cached": None}
    before = [
        line for k in range(4) for line in (f"cached {k} rows", f"step {k}: loss {2 - k / 9:.3f}, {k + 2.5} ms/step")
    ]
    assert [row["step"] for row in guessed(tmp_path, before).rows("values")] == [0, 1, 2, 3]


def test_steps_that_restart_in_each_epoch_have_both_counters(tmp_path: Path) -> None:
    lines = [f"epoch {e} step {k} loss {2 - k / 9:.3f} took {k + 2.5} ms/step" for e in (1, 2) for k in (10, 20, 30)]
    rows = guessed(tmp_path, lines).rows("steps")
    assert [(row["epoch"], row["step"], row["copy"]) for row in rows] == [
        (1, 10, 1), (1, 20, 1), (1, 30, 1), (2, 10, 1), (2, 20, 1), (2, 30, 1),
    ]  # fmt: skip


@examples(15)
@given(st.text(st.sampled_from("step rank 0123456789/:=|,.%[]()smit+-"), max_size=60))
def test_odd_lines_have_no_role_of_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        got = guessed(tmp_path_factory.getbasetemp(), [text])
    except InputError:
        return
    assert not got.rows("steps") and set(steps_of(got).values()) <= {None}


@pytest.mark.parametrize("program", CASES)
def test_a_guess_stores_no_figure_that_the_suggested_file_lacks(program: str, tmp_path: Path) -> None:
    """`perflog formats suggest` names all numbers, `--guess` stores those with a name that nothing contradicts."""
    text, _ = CASES[program]
    got = guessed(tmp_path, text.splitlines())
    log = perflog.read(tmp_path / "run.txt", guess=True)
    stored = {(row["line"], row["key"], row["value"]) for row in log.arrow("values").to_pylist()}
    assert stored or log.arrow("steps").num_rows or len(log.settings.columns) > 2
    assert stored <= {
        (row["line"], row["key"], row["value"])
        for row in got.rows("values")
        + [{"line": row["line"], "key": key, "value": value} for row in got.rows("steps") for key, value in row.items()]
    }
    account = log.figure_account
    assert account["stored"] + account["dropped"] + account["unread"] == account["total"]


STARTS = ("", "--> STEP: {0}", "rank {0} up", "iter {0}", "[ITER {0}] saved", "device {0}", "{0} tests passed")
LATER = ("loss {1}.5", "wait(ms) {1}", "total: {1}", "of {1} samples", "| {1} |", "(rank {1})", "step={1}")


@examples(30)
@given(st.lists(st.tuples(st.sampled_from(STARTS), st.sampled_from(("", *LATER))), min_size=1, max_size=6))
def test_each_figure_that_counts_as_stored_is_in_a_table(
    tmp_path_factory: pytest.TempPathFactory, forms: list[tuple[str, str]]
) -> None:
    lines = [
        " ".join(form).format(101 + 2 * k, 1001 + 2 * k).strip() for k, form in enumerate([*forms, ("x {0}", "y {1}")])
    ]
    path = tmp_path_factory.getbasetemp() / "run.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        log = perflog.read(path, guess=True)
    except InputError as error:
        if "no word names its numbers without doubt" not in str(error):
            raise
        return
    stored = {v for t in log.table_names if t != "lines" for row in log.arrow(t).to_pylist() for v in row.values()}
    settings = [json.loads(row["config"]) for row in log.arrow("runs").to_pylist()]
    stored |= {value for config in settings for value in config.values()}
    numbers = [float(x) for line in lines for x in re.findall(r"[0-9.]+", line)]
    found = [n for n in numbers if any(math.isclose(n, x * by) for by in (1, 1000) for x in stored if is_number(x))]
    assert len(found) >= log.figure_account["stored"], stored


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float)


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1e-3), ("s", 1)])
def test_a_name_with_its_unit_in_brackets_keeps_the_order_of_name_and_value(
    tmp_path: Path, unit: str, factor: float
) -> None:
    text = f"run size 64 peak_mem(gb) 20.5 build_time({unit}) 3 tokens_per_sec 73.25 latency({unit}) 1111.5 mode x1\n"
    assert figures(tmp_path / "run.txt", text) == [
        (1, "build_time", pytest.approx(3 * factor), "s"), (1, "latency", pytest.approx(1111.5 * factor), "s"),
        (1, "peak_mem", 20.5e9, "B"), (1, "run_size", 64, None), (1, "tokens_per_s", 73.25, "1/s"),
    ]  # fmt: skip


def test_a_word_for_validation_names_all_numbers_and_a_count_that_grows_is_no_total(tmp_path: Path) -> None:
    text = (
        "DEBUG TRAIN Batch 4/300 loss 12.5 loss_att 10.25 lr 0.001\n"
        "DEBUG TRAIN Batch 4/400 loss 11.5 loss_att 10.75 lr 0.001\n"
        "DEBUG CV Batch 4/0 loss 28.5 loss_att 24.25 history loss 27.75\n"
    )
    stored = figures(tmp_path / "run.txt", text)
    assert [(key, value) for line, key, value, _ in stored if line == 3] == [
        ("cv_batch", 4), ("cv_batch_2", 0), ("cv_history_loss", 27.75), ("cv_loss", 28.5), ("cv_loss_att", 24.25),
    ]  # fmt: skip
    assert [(key, value) for line, key, value, _ in stored if line == 2] == [
        ("loss", 11.5), ("loss_att", 10.75), ("lr", 0.001), ("train_batch", 4), ("train_batch_2", 400),
    ]  # fmt: skip


def test_a_count_of_samples_is_no_step_and_no_line_has_the_step_of_a_later_one(tmp_path: Path) -> None:
    bars = [(64, "5:37"), (192, "1:52"), (320, "1:07"), (448, "48s"), (576, "37s"), (704, "31s")]
    lines = [f"{n:4d}/7200 [....] - ETA: {eta} - loss: 1.{n} - acc: 0.375" for n, eta in bars]
    path = tmp_path / "run.txt"
    for head in ("Train on 7200 samples, validate on 799 samples", "Train now"):
        path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
        log = perflog.read(path, guess=True)
        rows = [row for t in ("values", "steps") for row in log.arrow(t).to_pylist() if row["line"] > 1]
        own = {line: n for line, (n, _) in enumerate(bars, 2)}
        assert all(row["step"] in ((None,) if "samples" in head else (None, own[row["line"]])) for row in rows)


def test_an_address_on_the_bus_is_no_figure(tmp_path: Path) -> None:
    devices = [(1, "0000:af:00.0"), (0, "0000:3b:00.0"), (2, "0000:3b:00.0"), (3, "0000:af:00.0")]
    path = tmp_path / "run.txt"
    path.write_text(
        "".join(f"WARNING: Rank: {rank} : GPU {place} \tClock: 76{rank} MHz\n" for rank, place in devices)
        + "Device 0: NVIDIA GeForce RTX 3050 Laptop GPU (00000000:01:00)\n",
        encoding="utf-8",
    )
    log = suggested(path)
    rows = [(row["rank"], row["key"], row["value"]) for row in log.arrow("values").to_pylist()]
    assert rows[:4] == [(rank, "clock", (760 + rank) * 1e6) for rank, _ in devices]
    assert (log.figure_account["stored"], log.figure_account["unread"]) == (9, 0)
    assert log.arrow("runs").to_pylist()[0]["device"] == "NVIDIA GeForce RTX 3050 Laptop GPU"


def test_results_are_no_settings(tmp_path: Path) -> None:
    text = (
        "episodes_total: 233\ncur_lr: 0.0005\nnum_steps_trained: 800\nlast_update: 4480\niterations_since_restore: 4\n"
        "2 tests completed and passed all checks\n0 tests skipped\nworkers: 4\nmean_q: 5.25\n"
        "       Class     Images          P          R\n         all        128          0          0\n"
    )
    stored = figures(tmp_path / "run.txt", text)
    assert [(line, key, value) for line, key, value, _ in stored] == [
        (1, "episodes_total", 233), (11, "Class", None), (11, "Images", 128), (11, "P", 0), (11, "R", 0),
        (2, "cur_lr", 0.0005),
        (3, "num_steps_trained", 800), (4, "last_update", 4480), (5, "iterations_since_restore", 4),
        (6, "tests", 2), (7, "tests_skipped", 0), (8, "workers", 4), (9, "mean_q", 5.25),
    ]  # fmt: skip


def test_a_result_and_what_a_line_says_of_a_moment_are_no_settings(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(
        "model_load: n_text_layer  = 12\nmodel_load: n_text_ctx    = 448\nMax prime number = 12553\n"
        "saving the model at the end of epoch 355, iters 800\nBEGIN smi.gpu0_processes_mem 998780\nspeed: 5.5 GB/s\n",
        "utf-8",
    )
    log = perflog.read(path, guess=True)
    assert [json.loads(config) for config in log.runs["config"]] == [{"n_text_layer": 12}]
    values = {row["key"]: row["value"] for row in log.arrow("values").to_pylist()}
    assert values.pop("speed") == 5.5
    assert values == {
        "n_text_ctx": 448, "max_prime_number": 12553, "epoch": 355, "iters": 800,
        "begin_smi_gpu0_processes_mem": 998780,
    }  # fmt: skip


NAMES: dict[str, list[tuple[str, float, str | None]]] = {
    "Average wait-for-first-reply [WFFR] (ms):    52.5": [("average_wait_for_first_reply_wffr", 0.0525, "s")],
    "Per User Speed [1/TPOT] (tokens/sec/user): 5.5": [("per_user_speed_1_tpot", 5.5, "1/s")],
    "||Ax-b||_oo/(eps*(||A||_oo+||b||_oo)*N)=        0.0102 .. PASSED": [("ax_b_oo_eps_a_oo_b_oo_n", 0.0102, None)],
    "Score is -0.5 per frame, over 136 frames = -0.4 + 0.1": [
        ("number_2_of_score", 136, None), ("number_3_of_score", -0.4, None), ("number_4_of_score", 0.1, None),
        ("score_per_frame", -0.5, None),
    ],
    "Stopped early after 1 optimizer updates in epoch 0.": [("epoch", 0, None), ("optimizer_updates", 1, None)],
    "bounds: 10/48 features bound (8 up, 2.5 down)": [
        ("bounds", 10, None), ("bounds_total", 48, None), ("down", 2.5, None), ("up", 8, None),
    ],
    "eta: N/A  wave: 60.5": [("wave", 60.5, None)],
    "SUM host_to_device_copy_ce 442.87": [("sum_host_to_device_copy_ce", 442.87, None)],
    "Finished loading data in 25.5 seconds": [("finished_loading_data", 25.5, "s")],
    "Average over 10 runs - GPU latency: 2.5 ms - Host latency: 2.75 ms (enqueue 0.5 ms)": [
        ("enqueue", 0.0005, "s"), ("gpu_latency", 0.0025, "s"), ("host_latency", 0.00275, "s"), ("runs", 10, None),
    ],
    "Nlocal:           10240 ave       10241 max       10239 min": [
        ("nlocal_ave", 10240, None), ("nlocal_max", 10241, None), ("nlocal_min", 10239, None),
    ],
    "PMIC@50.5C VDD_IN 5542mW/5543mW rate 1.75/s LR: 0.5": [
        ("lr", 0.5, None), ("pmic", 50.5, None), ("rate", 1.75, None), ("vdd_in", 5.542, "W"),
        ("vdd_in_2", 5.543, "W"),
    ],
    "Average window: 50  success: 0.5  action_loss: 0.25  entropy: 0.75": [
        ("action_loss", 0.25, None), ("average_window", 50, None), ("entropy", 0.75, None), ("success", 0.5, None),
    ],
    "write 25.5 MiB/sec and 12.25 Gbits/sec": [
        ("bandwidth", 12.25 / 8, "GB/s"), ("write", 25.5 * 2**20 / 1e9, "GB/s"),
    ],
    "[BENCH] n_layers 32 head_size 64 dtype float16 batch_size 8 part_percent 1.0 gen_time(ms) 2.5": [
        ("batch_size", 8, None), ("gen_time", 0.0025, "s"), ("head_size", 64, None), ("n_layers", 32, None),
        ("part_percent", 1, None),
    ],
}  # fmt: skip

NAMES |= {  # units, names and durations beside a number that are not its own
    "bw=11.5MiB/s (12.5MB/s), peak 2.5 Gbits/sec": [
        ("bw", 11.5 * 2**20 / 1e9, "GB/s"), ("bw_2", 0.0125, "GB/s"), ("peak", 0.3125, "GB/s"),
    ],
    "Data: 14.25 Batch: 18.5, 1.75/s Rate: 0.25": [
        ("batch", 18.5, None), ("data", 14.25, None), ("number_3_of_data_batch", 1.75, None), ("rate", 0.25, None),
    ],
    "Inodes: -0.5 Mi   Used Inodes: 4.5": [("inodes", -0.5, None), ("used_inodes", 4.5, None)],
    "RAM 24/68MB (lfb 20x4MB) SWAP 5/34MB AUX@36.5C PMIC@50C VDD_IN 55mW/56mW VDD_SOC 3mW/4mW": [
        ("aux", 36.5, None), ("pmic", 50, None), ("ram", 24e6, "B"), ("ram_total", 68e6, "B"), ("swap", 5e6, "B"),
        ("swap_total", 34e6, "B"), ("vdd_in", 0.055, "W"), ("vdd_in_2", 0.056, "W"), ("vdd_soc", 0.003, "W"),
        ("vdd_soc_2", 0.004, "W"),
    ],
    "Nlocal:        1000 ave        2000 max        300 min": [
        ("nlocal_ave", 1000, None), ("nlocal_max", 2000, None), ("nlocal_min", 300, None),
    ],
    "Atoms over 8 domains: av 336 stddev 22.5 min 315 max 358": [
        ("av", 336, None), ("max", 358, None), ("min", 315, None), ("number_1_of_atoms", 8, None),
        ("stddev", 22.5, None),
    ],
    "tuple :    1.5 sec wall,    1.25 sec cpu, 160 data_unsigned [laps: 1]": [
        ("cpu", 1.25, "s"), ("data_unsigned", 160, None), ("laps", 1, None), ("tuple", 1.5, "s"),
    ],
    "Time: min = 2.5 ms, max = 4.5 ms, percentile(99%) = 4.25 ms": [
        ("max", 0.0045, "s"), ("min", 0.0025, "s"), ("percentile_99", 0.00425, "s"),
    ],
    "Average on 10 runs - GPU latency: 2.5 ms - Host latency: 3.5 ms": [
        ("gpu_latency", 0.0025, "s"), ("host_latency", 0.0035, "s"), ("runs", 10, None),
    ],
    "Warmup completed 96 queries over 200 ms": [("queries", 96, None), ("time", 0.2, "s")],
    "[0119 15:37:31 @monitor.py:474] PeakMemory(MB)/gpu:0: 3799.5": [("peak_memory_gpu_0", 3799.5e6, "B")],
    "[1741244344.655540] [moss-0002:1963139:0] wave: 2.5": [("wave", 2.5, None)],
    "prefill-10k run 1/3: 5.5 s": [
        ("prefill_10k_run", 1, None), ("prefill_10k_run_total", 3, None), ("time", 5.5, "s"),
    ],
    "sdc: ios=92/24, merge=1/3, util=99.5%": [
        ("ios", 92, None), ("ios_2", 24, None), ("merge", 1, None), ("merge_2", 3, None), ("util", 0.995, "1"),
    ],
    "Copying 67108864 bytes from GPU 0.5": [("copying", 67108864, "B"), ("gpu", 0.5, None)],
    "There are: 2692 Atoms": [("atoms", 2692, None)],
    "Training 721479 words": [("words", 721479, None)],
    "Final:                  1000      0.25  1675.5": [
        ("number_1_of_final", 1000, None), ("number_2_of_final", 0.25, None), ("number_3_of_final", 1675.5, None),
    ],
    "nccl  32768     8192     float     sum      -1    18.5    1.75    3.25": [
        ("number_1_of_nccl_float", 32768, None), ("number_2_of_nccl_float", 8192, None),
        ("number_3_of_nccl_float", -1, None), ("number_4_of_nccl_float", 18.5, None),
        ("number_5_of_nccl_float", 1.75, None), ("number_6_of_nccl_float", 3.25, None),
    ],
    "0/299  11.5G  0.075  0.0645: 100% 9/9 [00:14<00:00,  1.61s/it]": [
        ("number_1_of_g_it", 0, None), ("number_2_of_g_it", 299, None), ("number_3_of_g_it", 11.5, None),
        ("number_4_of_g_it", 0.075, None), ("number_5_of_g_it", 0.0645, None), ("number_7_of_g_it", 9, None),
        ("number_8_of_g_it", 9, None), ("s_per_it", 1.61, "s"), ("share", 1, "1"),
    ],
    "window: 50  wave: 2.5  action_loss: 0.5": [("action_loss", 0.5, None), ("wave", 2.5, None), ("window", 50, None)],
}  # fmt: skip

DURATIONS = {
    "1h 42m 22s": 6142, "2m27.5s": 147.5, "1 minute 49 seconds": 109, "1m 10s": 70,
    "20 days 23 hours 27 minutes 50 seconds": 1812470,
}  # fmt: skip


@pytest.mark.parametrize("duration", DURATIONS)
def test_the_parts_of_a_duration_are_one_figure(duration: str, tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(f"wave: 2.5 left: {duration}\nwave: 3.5 left: {duration}\n", encoding="utf-8")
    values = perflog.read(path, guess=True).table("values").sort_values(["line", "key"])
    assert values["key"].tolist() == ["left", "wave"] * 2
    assert values["value"].tolist() == [DURATIONS[duration], 2.5, DURATIONS[duration], 3.5]
    assert set(values["unit"].dropna()) == {"s"}


def test_words_behind_a_number_that_differ_give_keys_that_differ(tmp_path: Path) -> None:
    text = (
        "107 pages paged in\n22 pages paged out\n56 non-nice user cpu ticks\n5 nice user cpu ticks\n45 idle cpu ticks\n"
    )
    stored = figures(tmp_path / "run.txt", f"{text}253 K total memory\n150 K used memory\n64 K free memory\n")
    assert [(key, value) for _, key, value, _ in stored] == [
        ("pages_paged_in", 107), ("pages_paged_out", 22), ("non_nice_user_cpu_ticks", 56), ("nice_user_cpu_ticks", 5),
        ("idle_cpu_ticks", 45), ("total_memory_k", 253), ("used_memory_k", 150), ("free_memory_k", 64),
    ]  # fmt: skip


def test_only_words_of_configuration_before_the_first_result_make_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(
        "batch size: 32\nbuilt CPU +18, now: CPU 19\nspeed: 5.5 tokens/s\neval count: 120 token(s)\nworkers: 4\n",
        "utf-8",
    )
    log = suggested(path)
    assert [json.loads(config) for config in log.runs["config"]] == [{"batch_size": 32}]
    assert len(log.table("values")) == 5


@pytest.mark.parametrize("line", NAMES)
def test_the_names_of_the_numbers_of_one_line(line: str, tmp_path: Path) -> None:
    stored = figures(tmp_path / "run.txt", f"{line}\n# without data it will print nan\n")
    expected: list[Any] = [(1, key, pytest.approx(value), unit) for key, value, unit in NAMES[line]]
    assert stored == expected


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        pytest.param(
            ["log/prob_train.1.log:LOG (main.cc:133) Objective is -0.015 per frame, over 136 frames",
             "log/prob_valid.1.log:LOG (main.cc:133) Objective is -0.040 per frame, over 136 frames"],
            ["train_frames", "train_objective_per_frame", "valid_frames", "valid_objective_per_frame"],
            id="file names that grep prints in front",
        ),
        pytest.param(
            ["print: sample time = 11.7 ms / 64 runs ( 0.18 ms per token, 5430.6 tokens per second)",
             "print:   eval time = 19.8 ms / 63 runs ( 0.31 ms per token, 3.18 tokens per second)"],
            ["eval_per_token", "eval_runs", "eval_time", "eval_tokens_per_s",
             "sample_per_token", "sample_runs", "sample_time", "sample_tokens_per_s"],
            id="names of the first number",
        ),
        pytest.param(
            ["queue 3 used 0.5 free 0.25", "queue 4 used 0.625", "INFO queue 5 used 0.75"],
            ["free", "queue", "queue", "queue", "used", "used", "used"],
            id="a number that some lines lack",
        ),
    ],
)  # fmt: skip
def test_numbers_of_one_name_are_told_apart(lines: list[str], names: list[str], tmp_path: Path) -> None:
    stored = figures(tmp_path / "run.txt", "\n".join(lines) + "\nthe end\n")
    assert sorted(key for _, key, _, _ in stored) == names


def test_a_header_names_rows_below_comments_and_a_column_without_a_name(tmp_path: Path) -> None:
    rows = [f"      {k}      1.{k}e+01    1.44e+00    5.0{k}e-01" for k in range(4)]
    text = "\n".join(["# step      rmse_val    rmse_trn      score", "# without data it will print nan", *rows]) + "\n"
    stored = figures(tmp_path / "run.txt", text)
    assert [(key, value) for line, key, value, _ in stored if line == 5] == [
        ("rmse_trn", 1.44), ("rmse_val", 12.0), ("score", 0.502), ("step", 2),
    ]  # fmt: skip
    table = "E    #       LOSS X    LOSS Y    SCORE\n---  ------  --------  --------  -----\n" + "".join(
        f"{k}      {k}00     {k}.25       {k}.50      0.{k}1\n" for k in (3, 4, 5)
    )
    stored = figures(tmp_path / "run.txt", table)
    assert [(key, value) for line, key, value, _ in stored if line == 4] == [
        ("E", 4), ("LOSS_X", 4.25), ("LOSS_Y", 4.5), ("SCORE", 0.41),
    ]  # fmt: skip


def test_a_bracket_behind_a_time_is_its_unit(tmp_path: Path) -> None:
    text = "Epoch Time(s): 177.5, sample: 73.25\nEpoch Time(s): 70.5, sample: 10.5\n"
    assert (1, "epoch_time", 177.5, "s") in figures(tmp_path / "run.txt", text)


def test_bytes_per_second_are_no_plain_rate(tmp_path: Path) -> None:
    row = "#bytes     BW peak[MB/sec]    link[GB/sec]    other[KB/sec]\n"
    rows = "".join(f"{k}          {k}.25               {k}.5           {k}.75\n" for k in (2, 4, 8))
    stored = figures(tmp_path / "run.txt", row + rows)
    assert [(key, value, unit) for line, key, value, unit in stored if line == 3] == [
        ("BW_peak", 4.25e-3, "GB/s"), ("bytes", 4, None), ("link", 4.5, "GB/s"),
        ("other", pytest.approx(4.75e-6), "GB/s"),
    ]  # fmt: skip


def values_of(path: Path, text: str) -> dict[int, list[tuple[str, float]]]:
    """Return the key and the value of each number that a guess stores, by line."""
    path.write_text(text, encoding="utf-8")
    rows = [row for row in perflog.read(path, guess=True).arrow("values").to_pylist() if row["text"] is None]
    return {
        line: sorted((r["key"], r["value"]) for r in rows if r["line"] == line) for line in {r["line"] for r in rows}
    }


def test_rows_with_empty_cells_are_not_shifted(tmp_path: Path) -> None:
    text = (
        "epoch       main/loss   validation/loss  accuracy\n"
        "1           0.314679    0.126357         0.91114\n"
        "2           0.0935955                    4.91697\n"
        "3           0.0541213   0.0860978        0.98557\n"
        "4           0.034525    0.0751695        0.98918\n"
    )
    stored = values_of(tmp_path / "run.txt", text)
    assert stored[2] == [
        ("accuracy", 0.91114), ("epoch", 1), ("main_loss", 0.314679), ("validation_loss", 0.126357),
    ]  # fmt: skip
    assert stored[3] == [("accuracy", 4.91697), ("epoch", 2), ("main_loss", 0.0935955)]


def test_a_header_names_the_rows_with_its_separator(tmp_path: Path) -> None:
    text = (
        "   Step          Temp          PotEng         KinEng         TotEng         Press\n"
        "         0   400           -326446.84      529.39785     -325917.45      6004.8001\n"
        "Section |  min time  |  avg time  |  max time  |%varavg| %total\n"
        "---------------------------------------------------------------\n"
        "Pair    | 6.9297     | 6.9298     | 6.9299     |   0.0 | 99.45\n"
        "Neigh   | 0.02908    | 0.02909    | 0.02910    |   0.0 |  0.42\n"
        "Comm    | 0.0025631  | 0.0025632  | 0.0025633  |   0.0 |  0.04\n"
    )
    assert values_of(tmp_path / "run.txt", text)[5] == [
        ("Pair.avg_time", 6.9298), ("Pair.max_time", 6.9299), ("Pair.min_time", 6.9297), ("Pair.share", 0.9945),
        ("Pair.variation", 0),
    ]  # fmt: skip


def test_a_seed_behind_a_result_is_a_setting_with_all_its_digits(tmp_path: Path) -> None:
    log = tmp_path / "run.txt"
    log.write_text(
        "Samples per second: 1021.52\nResult is VALID\nsample_index_rng_seed : 198141574272810017\nqueue depth: 12\n"
    )
    assert perflog.read(log, guess=True).settings["sample_index_rng_seed"].item() == 198141574272810017


def test_a_rate_of_unknown_things_counts_no_tokens(tmp_path: Path) -> None:
    log = tmp_path / "run.txt"
    log.write_text("".join(f"{k}> 12.{k} it/s\n" for k in range(5)))
    keys = set(perflog.read(log, guess=True).table("values")["key"])
    assert keys == {"its_per_s"}
