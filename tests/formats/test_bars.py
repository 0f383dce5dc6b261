"""Progress bars: what each form of a state gives, which bars count steps, and which states become rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reading import Reading, read

from perflog.formats.durations import clock_seconds, print_clock
from perflog.formats.registry import get
from perflog.parsing.input.bar_cuts import bar_cuts


def values_of(got: Reading) -> dict[str, Any]:
    return {str(row["key"]): row["value"] for row in got.rows("values")}


# --- tqdm's own formatter, from its documentation ---------------------------------------------------------------------


def state_of(  # noqa: PLR0913  # as tqdm's own function
    count: int,
    total: int | None,
    elapsed: float,
    rate: float | None,
    unit: str = "it",
    prefix: str = "",
    postfix: str = "",
    is_ascii: bool = False,
) -> str:
    """`tqdm.format_meter`: a state of a bar of ten characters."""
    if rate is None:
        printed = f"?{unit}/s"
    elif rate < 1:
        printed = f"{1 / rate:5.2f}s/{unit}"
    else:
        printed = f"{rate:5.2f}{unit}/s"
    prefix = f"{prefix}: " if prefix else ""
    behind = f", {postfix}" if postfix else ""
    if total is None:
        return f"{prefix}{count}{unit} [{print_clock(elapsed)}, {printed}{behind}]"
    left = print_clock((total - count) / rate) if rate else "?"
    full = min(count * 10 // total, 10)
    drawn = ("#" * full + "5" * (full < 10) if is_ascii else "█" * full).ljust(10)
    share = f"{100 * count / total:3.0f}%|{drawn}|"
    return f"{prefix}{share} {count}/{total} [{print_clock(elapsed)}<{left}, {printed}{behind}]"


PREFIXES = ("", "Training", "Epoch 3", "train", "Steps", "epoch 003", "Epoch 2/10", "Loading shards", "Validation")
NUMBERS = st.floats(1e-6, 1e6)


@given(
    st.integers(1, 10**9),
    st.one_of(st.none(), st.integers(1, 10**9)),
    st.integers(0, 10**8),
    st.one_of(st.none(), st.floats(1e-3, 1e6)),
    st.sampled_from(["it", "batch", "step"]),
    st.sampled_from(PREFIXES),
    st.dictionaries(st.sampled_from(["loss", "lr", "grad_norm", "acc", "tokens"]), NUMBERS, max_size=3),
    st.booleans(),
)
def test_a_state_of_tqdm_is_read_back(  # noqa: PLR0913  # the parts of a state
    count: int,
    total: int | None,
    elapsed: int,
    rate: float | None,
    unit: str,
    prefix: str,
    numbers: dict[str, float],
    is_ascii: bool,
) -> None:
    total = None if total is None else max(total, count)
    postfix = ", ".join(f"{name}={value:.4g}" for name, value in numbers.items())
    text = state_of(count, total, elapsed, rate, unit, prefix, postfix, is_ascii)
    assert bar_cuts(f"{text}\n".encode(), len(text.encode()) + 1) == []
    line = next(lines[0] for family in get("bars").families if (lines := family.lines(text)))
    values = line.template.match(text)
    assert values is not None and line.bar is not None
    assert (values[line.bar.count], values[line.bar.elapsed]) == (count, elapsed)
    assert total is None or values[line.bar.total] == total
    is_step = prefix not in ("", "Loading shards", "Validation") or (prefix != "Validation" and "loss" in numbers)
    assert (line.table == "steps", line.bar.count == "step") == (is_step, is_step)
    names = {"lr": "learning_rate"} if is_step else {}
    part = "validation_" if prefix == "Validation" else ""
    for name, value in numbers.items():
        assert values[part + names.get(name, name)] == float(f"{value:.4g}")
    rates = {line.unit[name].base: value for name, value in values.items() if "smoothed" in name}
    printed = None if rate is None else {"s": round(1 / rate, 2)} if rate < 1 else {"1/s": round(rate, 2)}
    assert rates == pytest.approx(printed or {})


@given(st.integers(0, 10**9))
def test_the_clock_of_a_bar_is_read_back(elapsed: int) -> None:
    assert clock_seconds(print_clock(elapsed)) == elapsed


# --- forms ------------------------------------------------------------------------------------------------------------

STEPS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "steps:   2%|█ | 3396/167300 [12:19:15<594:39:50, 13.06s/it, avr_loss=0.0626]": (
        {"step": 3396, "elapsed_s": 44355}, {"smoothed_s_per_it": 13.06, "avr_loss": 0.0626}, {"steps_total": 167300},
    ),
    "Steps:   0%|          | 1/4000 [00:23<26:02:32, 23.44s/it, gst=1, gstl=1.79]": (
        {"step": 1, "elapsed_s": 23}, {"smoothed_s_per_it": 23.44, "gst": 1, "gstl": 1.79}, {"Steps_total": 4000},
    ),
    "Epoch 3/10:  45%|####5     | 120/266 [01:02<01:15,  1.93it/s, loss=0.123, lr=1e-4]": (
        {"epoch": 3, "step": 120, "elapsed_s": 62, "loss": 0.123, "learning_rate": 1e-4},
        {"smoothed_it_per_s": 1.93}, {"Epoch_total": 10, "batches": 266},
    ),
    "Epoch 0:  10%|█ | 10/100 [00:05<00:45, 1.98it/s, v_num=0, train_loss=2.3]": (
        {"epoch": 0, "step": 10, "elapsed_s": 5, "loss": 2.3}, {"smoothed_it_per_s": 1.98}, {"batches": 100},
    ),
    "Epoch 0/9 ━━━━╸━━━━━━━━━━━━━━━ 10/100 0:00:05 • 0:00:45 1.98it/s v_num: 0 train_loss: 2.3": (
        {"epoch": 0, "step": 10, "elapsed_s": 5, "loss": 2.3}, {"smoothed_it_per_s": 1.98},
        {"Epoch_total": 9, "batches": 100},
    ),
    "epoch 001:  10%|█| 10/100 [00:05<00:45, 2.0it/s, loss=8.1, ppl=274, wps=21000]": (
        {"epoch": 1, "step": 10, "elapsed_s": 5, "loss": 8.1, "perplexity": 274, "tokens_per_s": 21000},
        {"smoothed_it_per_s": 2}, {"batches": 100},
    ),
    "10/100 [==>...........................] - ETA: 5s - loss: 2.3": (
        {"step": 10, "elapsed_s": None, "loss": 2.3}, {}, {"bar_total": 100},
    ),
    "10/100 ━━━━━━━━━━━━━━━━━━━━ 45s 500ms/step - loss: 2.3": (
        {"step": 10, "elapsed_s": None, "loss": 2.3}, {"mean_s_per_step": 0.5}, {"bar_total": 100},
    ),
    " 12%|███ | 12/100 [00:30<03:40, 2.50s/it, loss=1.2]": (
        {"step": 12, "elapsed_s": 30, "loss": 1.2}, {"smoothed_s_per_it": 2.5}, {"bar_total": 100},
    ),
    "14it [00:01, 12.9it/s, loss=2.5]": ({"step": 14, "elapsed_s": 1, "loss": 2.5}, {"smoothed_it_per_s": 12.9}, {}),
    "2024-05-01 10:11:12 | INFO | Training:  10%|#    | 3/30 [1 day, 1:00:10<01:30,  5.00s/it]": (
        {"step": 3, "elapsed_s": 90010}, {"smoothed_s_per_it": 5}, {"bar_total": 30},
    ),
    "Training:  10%|#    | 3/30 [00:10<01:30,  5.00s/it, loss=2.3, epoch=2]": (
        {"step": 3, "epoch": 2, "loss": 2.3}, {"smoothed_s_per_it": 5}, {"bar_total": 30},
    ),
    "Training:  10%|#    | 3/30 [00:10<01:30,  5.00s/it, loss=2.3, step=13]": (
        {"step": 13, "loss": 2.3}, {"bar": 3, "smoothed_s_per_it": 5}, {"bar_total": 30},
    ),
    "Epoch 1/5 - Train:  50%|##   | 98/196 [00:05<00:05, 18.50batch/s, Loss=1.234]": (
        {"epoch": 1, "step": 98, "loss": 1.234}, {"smoothed_batch_per_s": 18.5}, {"Epoch_total": 5, "batches": 196},
    ),
    "Epoch 0, global step 5: 10%|#  | 3/30 [00:10<01:30,  5.00s/it, loss=2.3]": (
        {"epoch": 0, "step": 5, "loss": 2.3}, {"bar": 3, "smoothed_s_per_it": 5}, {"bar_total": 30},
    ),
    "Epoch 1 [Train]: 100%|###| 147/147 [00:45<00:00,  3.25it/s] loss: 2.8345, acc: 32.45%": (
        {"epoch": 1, "step": 147, "loss": 2.8345}, {"smoothed_it_per_s": 3.25, "acc": 0.3245}, {"batches": 147},
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", STEPS)
def test_states_of_training(text: str) -> None:
    columns, values, config = STEPS[text]
    got = read(f"{text}\n".encode())
    (row,) = got.rows("steps")
    assert {key: row[key] for key in columns} == pytest.approx(columns)
    assert values_of(got) == pytest.approx(values)
    assert json.loads(got.rows("runs")[0]["config"]) == config
    assert [line["figures_unread"] for line in got.rows("lines")] == [0]
    assert got.done.formats == ["bars"]


OTHERS: dict[str, dict[str, Any]] = {
    " 10%|#         | 51/500 [00:10<01:30,  5.00it/s]": {
        "bar": 51, "bar_total": 500, "bar_elapsed": 10, "smoothed_it_per_s": 5,
    },
    "14it [00:01, 12.9it/s]": {"bar": 14, "bar_elapsed": 1, "smoothed_it_per_s": 12.9},
    " 57% 54.5M/95.8M [00:06<00:05, 8.52MB/s]": {
        "b_bar": 54.5e6, "b_bar_total": 95.8e6, "b_bar_elapsed": 6, "smoothed_B_per_s": 8.52e-3,
    },
    "Loading safetensors checkpoint shards:  12% Completed | 1/8 [00:00<00:06,  1.09it/s]": {
        "Loading_safetensors_checkpoint_shards": 1, "Loading_safetensors_checkpoint_shards_total": 8,
        "Loading_safetensors_checkpoint_shards_elapsed": 0, "smoothed_it_per_s": 1.09,
    },
    "Map (num_proc=8): 100%|##########| 51760/51760 [00:10<00:00, 5000.00 examples/s]": {
        "num_proc": 8, "examples_bar": 51760, "examples_bar_total": 51760, "examples_bar_elapsed": 10,
        "smoothed_examples_per_s": 5000,
    },
    "Validation DataLoader 0: 100%|##########| 10/10 [00:01<00:00, 50.12it/s]": {
        "Validation_DataLoader": 0, "validation_bar": 10, "validation_bar_total": 10, "validation_bar_elapsed": 1,
        "validation_smoothed_it_per_s": 50.12,
    },
    "Validation:  50%|##### | 5/10 [00:01<00:01,  5.00it/s, loss=2.5]": {
        "validation_bar": 5, "validation_bar_total": 10, "validation_bar_elapsed": 1,
        "validation_smoothed_it_per_s": 5, "validation_loss": 2.5,
    },
    "Epoch 1 [Val]: 100%|###| 37/37 [00:08<00:00,  4.25it/s] loss: 2.3421, acc: 45.23%": {
        "Epoch": 1, "val_bar": 37, "val_bar_total": 37, "val_bar_elapsed": 8, "val_smoothed_it_per_s": 4.25,
        "val_loss": 2.3421, "val_acc": 0.4523,
    },
    "Processed prompts: 9%|#| 16/128 [00:17<01:19, 1.41it/s, est. speed input: 1208.6 toks/s, output: 348.09 toks/s]": {
        "Processed_prompts": 16, "Processed_prompts_total": 128, "Processed_prompts_elapsed": 17,
        "smoothed_it_per_s": 1.41, "speed_input_tokens_per_s": 1208.6, "output_tokens_per_s": 348.09,
    },
}  # fmt: skip


@pytest.mark.parametrize("text", OTHERS)
def test_states_of_bars_that_count_no_steps(text: str) -> None:
    got = read(f"{text}\n".encode())
    assert got.rows("steps") == []
    assert values_of(got) == pytest.approx(OTHERS[text])
    assert [row["figures_unread"] for row in got.rows("lines")] == [0]


def test_a_bar_before_its_first_step_gives_no_row() -> None:
    got = read(b"  0%|          | 0/1562 [00:00<?, ?it/s]\n 10%|# | 10/100 [00:10<01:30, 1.00it/s, loss=2.5]\n")
    assert [(row["line"], row["step"]) for row in got.rows("steps")] == [(2, 10)]
