"""Panels with the pairs of a step are read as one line each; other boxes stay as they are."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.parsing.input.panels import has_panels, joined_panels

PANEL = """\
before
╭───── Training ─────────╮
│ Global Step: {}/1000 │ Progress: ██░░ │ 5.1% │
├───────── Time ─────────┤
│ loss          │ 2.5    │
│ throughput:  1234 tok/s │
│                        │
│lr=0.001      │step_time=1.5s │
╰────────────────────────╯
after
"""
LINE = (
    "[Training] Global Step: {}/1000, Progress: ██░░, 5.1%, loss: 2.5, throughput: 1234 tok/s, lr: 0.001, "
    "step_time: 1.5s"
)


@pytest.mark.parametrize("size", [1, 9, 4096])
def test_pairs_follow_each_other_and_lines_keep_their_numbers(size: int) -> None:
    data = PANEL.format(51).encode()
    assert has_panels(data)
    text = b"".join(joined_panels(data[k : k + size] for k in range(0, len(data), size))).decode()
    assert text.split("\n") == ["before", LINE.format(51), *[""] * 7, "after", ""]


@pytest.mark.parametrize(
    "box",
    [
        "╭─ Config ──╮\n│ steps: 10 │\n│ lr: 0.5   │\n╰───────────╯\n",  # settings
        "┌──────┬───────┐\n│ step │ loss  │\n├──────┼───────┤\n│ 100  │ 2.5   │\n└──────┴───────┘\n",  # a table
        "╭─ Step 1 ──╮\n│ busbw: 3.5 GB/s │\n╰───────────╯\n",  # a benchmark, whose lines measure alone
        "╭─ Step 1 ──╮\n│ 12 │ 3.5  │\n╰───────────╯\n",
        "╭─ Result ──╮\n│ loss: 2.5 │\n│ seed: 5   │\n╰───────────╯\n",  # of no step
        "╭─ Epoch 1 ─╮\n│ step_time: 2.5 s │\n╰───────────╯\n",  # perhaps the mean of an epoch
        "╭─ Step 1 ──╮\n│ loss: 2.5 │\nstep 2\n╰───────────╯\n",  # torn
        "╭─ Step 1 ──╮\n│ loss: 2.5 │\n│ loss: 2.75 │\n╰───────────╯\n",  # of two parts of the work
        "╭" + "─" * 4000 + "x" * 4000 + "\n",  # in linear time
    ],
)
def test_other_boxes_stay_as_they_are(box: str) -> None:
    assert b"".join(joined_panels([box.encode()])).decode() == box


def test_steps_are_read() -> None:
    steps = read((PANEL.format(51) + PANEL.format(52)).encode()).rows("steps")
    assert [(row["line"], row["step"], row["loss"], row["tokens_per_s"], row["step_time_s"]) for row in steps] == [
        (2, 51, 2.5, 1234, 1.5), (12, 52, 2.5, 1234, 1.5),
    ]  # fmt: skip


def test_a_log_may_end_in_a_panel() -> None:
    text = "╭── Training ──╮\n│ Step: 51/1000 │ Step Time: 3.5s │\n├── Loss ──┤\n"
    assert b"".join(joined_panels([text.encode()])).decode() == "[Training] Step: 51/1000, Step Time: 3.5s\n\n\n"


GRID = """\
╒════════╤════════╤══════╤═══════╕
│ loss/a │ 2.5e+0 │ lr   │ 1e-06 │
├────────┼────────┼──────┼───────┤
│ time/b │    0.5 │      │       │
╘════════╧════════╧══════╧═══════╛\x1b[0m
"""
GROUPS = """\
╭──── Metrics ────────────────────╮
│  loss   policy: 0.1 | kl: 0.0   │
│  other  step: 5 | tokens:       │
│         12.5 | lr: 5e-07        │
╰─────────────────────────────────╯
"""


@pytest.mark.parametrize(
    ("box", "line"),
    [
        (GRID, "loss/a: 2.5e+0, lr: 1e-06, time/b: 0.5"),
        (GROUPS, "[Metrics] loss/policy: 0.1, loss/kl: 0.0, other/step: 5, other/tokens: 12.5, other/lr: 5e-07"),
        (GRID.replace("2.5e+0", "name  "), ""),  # a header and a row
        (GROUPS.replace("step", "epic"), ""),  # perhaps settings
    ],
)
def test_grids_of_pairs_and_groups_of_pairs(box: str, line: str) -> None:
    text = b"".join(joined_panels([box.encode()])).decode()
    assert text == (line + "\n" * 5 if line else box)
