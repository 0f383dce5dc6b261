"""Where the states of progress bars are cut from the rest of their lines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from perflog.parsing.input.bar_cuts import _LONGEST_FRONT, bar_cuts

BAR = "12%|#2        | 12/100 [00:30<03:40,  2.50s/it, loss=1.2]"
OPEN = "14it [00:01, 12.9it/s]"


def parts_of(raw: bytes) -> list[str]:
    """The parts of a text, which ends with a line break."""
    cuts = [0, *bar_cuts(raw, len(raw)), len(raw) - 1]
    return [raw[a:b].decode() for a, b in pairwise(cuts)]


GLUED = [
    ["{'loss': 0.5, 'epoch': 1.0} ", "10%|#         | 3/30 [00:10<01:30,  5.00s/it]"],
    ["100%|##| 7/7 [2:16:02<00:00,  1.39s/it]", "100%|##| 7/7 [2:16:02<00:00,  1.68s/it]", "Saved to ./model"],
    [" 10%|#   | 10/100 [00:20<03:00,  2.00s/it]", "[2025-01-01 10:00:20,000] [INFO] time (ms) | forward: 3"],
    ["[rank3]: Epoch 3:  10%|#   | 10/100 [00:20<03:00,  2.00s/it, loss=[1, 2]]"],
    ["3:  10%|#   | 10/100 [00:20<03:00,  2.00s/it]", "4:  10%|#   | 11/100 [00:20<03:00,  2.00s/it]"],
    ["speed=50.1, memory=40.2GB  ", "0%|          | 0/1562 [00:00<?, ?it/s]", "INFO 09-15 10:00:00 woke up"],
    [
        "  train: 100%|##| 211/211 [05:25<00:00,  1.5s/it]",
        "   eval : 100%|##| 3/3 [00:02<00:00,  1.25it/s]   loss=0.75",
    ],
    ["Epoch 1 [Val]: 100%|###| 37/37 [00:08<00:00,  4.25it/s] loss: 2.3421, acc: 45.23%"],
    ["Training Iteration: 4072  step_loss : 0.5 ", "Iteration:  49%|##| 1350/2771 [01:02<01:15,  1.25it/s]"],
    ["(actor pid=12, ip=1.2.3.4) Epoch 0: :  49%|##| 1350/2771 [01:02<01:15,  1.25it/s]"],
    ["2024-05-01 10:11:12 | INFO | Training:  44%|####5     | 20/45 [1 day, 1:10:00<00:00,  1.57s/it]"],
    ["14it [00:01, 12.9it/s]", "done"],
]


@pytest.mark.parametrize("parts", GLUED, ids=[parts[0][:20] for parts in GLUED])
def test_states_are_cut_from_other_text(parts: list[str]) -> None:
    assert parts_of("".join(parts).encode() + b"\n") == parts


def test_lines_without_a_bar_are_not_cut() -> None:
    raw = b"step 10 | 50% | 3/4 [2025-01-01 10:00:20] it [10]\n[00:10] 12:30 10%| 5/10\n"
    assert bar_cuts(raw, len(raw)) == []


def test_time_is_linear_in_the_states_on_a_line() -> None:
    states = "".join(f"{k // 2000}%|#| {k}/200000 [00:01<00:10, 9.0it/s]" for k in range(200_000)).encode() + b"\n"
    assert len(bar_cuts(states, len(states))) == 199_999
    returned = states.replace(b"]", b"]\r")
    assert bar_cuts(returned, len(returned)) == []
    cut = b"10%|#| 5/10 [00:01<" * 20_000 + b"\n"
    assert bar_cuts(cut, len(cut)) == []


@pytest.mark.parametrize(
    "parts",
    [
        # before a state: what belongs to it, and what does not
        [f"  {BAR}  "], [f"Epoch 1: {BAR}"], [f"0: Epoch 1: {BAR}"], [f"INFO: {BAR}"], ["step 1 loss 2 ", BAR],
        ["hello world ", BAR], ["{'a': 1} ", BAR], ["{'a': 1}", f"Training: {BAR}"], ["{a}", f"[rank0]: {BAR}"],
        ["'a' 3.5 ", f"Epoch 2: {BAR}"], ["'a' 5 ", f"[a]: {BAR}"], [f"a{{b}}: words: {BAR}"],
        # after it: a name with a number, or another part
        [f"{BAR} loss: 2.5"], [f"{BAR}, loss=-.5"], [f"{BAR}, "], [f"{BAR} | "], [BAR, "loss: 2.5"], [BAR, " INFO now"],
        [BAR, "step 1"], [f"{BAR} loss: 2.5 and more"],
        # between two
        [BAR, BAR], [BAR, f" {BAR}"], [BAR, f"Epoch 2: {BAR}"], [BAR, "{'loss': 2} ", BAR], [OPEN, OPEN, "done"],
    ],
    ids=repr,
)  # fmt: skip
def test_what_belongs_to_a_state(parts: list[str]) -> None:
    assert parts_of("".join(parts).encode() + b"\n") == parts


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        (f"a\n{OPEN}more\nb\n", [24]), (f"{OPEN}x\r{OPEN}y\n", [22, 46]), (f"a\r{OPEN}x\n", [24]),
        (f"words {BAR}", [6]), (f"a\nb\nwords {BAR}", [10]), (f"words {BAR}\rx{BAR}", [6]),
    ],
)  # fmt: skip
def test_cuts_are_offsets_in_the_whole_text(text: str, cuts: list[int]) -> None:
    raw = text.encode()
    assert bar_cuts(raw, len(raw))[: len(cuts)] == cuts


def test_only_what_is_before_the_end_is_looked_at() -> None:
    raw = f"words {BAR}\nwords {BAR}\n".encode()
    assert bar_cuts(raw, len(raw)) == [6, 6 + len(raw) // 2]
    assert bar_cuts(raw, len(raw) // 2) == bar_cuts(raw, len(raw) - 3) == [6]
    assert bar_cuts(raw, 20) == []


@pytest.mark.parametrize("rate", ["1.5it/s]", "1.5it/s, loss=2]", "1.5s/it]"])
def test_a_state_without_its_time_left_is_known_by_its_rate(rate: str) -> None:
    assert bar_cuts(f"14it [00:01, {rate}done\n".encode(), 99) == [13 + len(rate)]


def test_a_long_text_before_a_state_is_not_part_of_it() -> None:
    """What belongs to the state is looked for in the last bytes alone."""
    for words in ("Epoch " * 10, "a " * (_LONGEST_FRONT // 2)):
        text = f"{words}{{x}}Epoch 3: {BAR}\n"
        assert bar_cuts(text.encode(), len(text)) == [len(words) + 3]
    text = f"{'(a) ' * (_LONGEST_FRONT // 4)}(b) {BAR}\n"
    assert bar_cuts(text.encode(), len(text)) == [_LONGEST_FRONT + 4]
    assert bar_cuts(text[4:].encode(), len(text) - 4) == []
