"""Lines of several ranks in one pipe: one write in ten is interrupted, anywhere, by a write of another rank.

The oracle is the same log with whole lines: each stored figure must be one of its figures, with its rank and its step;
where a torn log shows another format, a number that one of these lines prints.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import Reading, read

from perflog.errors import PerflogError
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.model import Line
from perflog.formats.registry import known

TABLES = ("steps", "values", "phases", "loads", "layers", "collectives", "summaries")
PLACES = ("run", "line", "part", "rank", "rank_by", "source", "copy", "occurrence", "window_first", "window_last")
NAMES = ("key", "phase", "unit", "op", "direction", "text")
DERIVED = ("steps_averaged", "step_time_from", "step_time_by", "printed_ns", "time_ns", "clock", "elapsed_s", "read_by")
_NUMBER = re.compile(r"(?<![A-Za-z_@#\d.:/-])\d+(?:\.\d+)?(?![A-Za-z_\d:/-])")
_PRINTED = re.compile(r"(?<![\d.])[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_VARIED = re.compile(r"(\d\.)(\d+)(?!\d|e)")
_TIME = re.compile(r"\d+(?::\d\d)+(?:\.\d+)?")
_RANK = re.compile(r"(?i)(\brank\"?[ :=]{0,2} *)\d+")
_UNITS = (1, 1e-2, 60, 3600, *(10.0**k for k in (-9, -6, -3, 3, 6, 9, 12)), *(2.0**k for k in (10, 20, 30)))

LABELS: dict[str, Callable[[int, int], str]] = {
    "torchrun": lambda rank, _: f"[rank{rank}]:",
    "local": lambda rank, _: f"[default{rank}]:",
    "mpirun": lambda rank, _: f"[1,{rank}]<stdout>:",
    "srun": lambda rank, width: f"{rank:{width}d}: ",
    "printed": lambda rank, _: f"[Rank {rank}] ",
    "ray": lambda rank, _: f"(Worker pid={1000 + rank}, ip=10.0.0.{rank}) ",
}


@cache
def samples() -> list[tuple[str, str]]:
    """The samples of the lines that give rows of their own: the name of the line, its text."""
    found: list[tuple[str, str]] = []
    for form in known().values():
        every: list[tuple[Line, str]] = [(line, line.samples[0]) for line in form.lines if line.samples]
        for family in form.families:
            if not isinstance(family, HeaderTable) and family.samples:
                shown = (line for line in family.lines(family.samples[0]) if line.template.match(family.samples[0]))
                every += [(line, family.samples[0]) for line in shown][:1]
        found += [
            (f"{form.name}/{line.name}", text)
            for line, text in every
            # A line that begins with a number or a text goes on with whatever stands in front of it.
            if line.role == "line" and line.table in TABLES and not (line.under_header or line.clock or line.partial)
            if sum(map(str.isalnum, line.template.prefix.decode())) > 2
        ]
    return found


class Row(NamedTuple):
    """What one row of a table, or all rows of one line, hold of the line: its rank and its values."""

    rank: int | None
    values: frozenset[str]


def rows(log: Reading, by_line: bool = False) -> list[Row]:
    """The rows of a log; with `by_line` those of one line together."""
    found: dict[tuple[object, ...], Row] = {}
    for table in TABLES:
        for k, row in enumerate(log.rows(table)):
            derived = (*DERIVED, "step_time_s") if row.get("step_time_by") else DERIVED  # from the line before
            values = {str(v) for name, v in row.items() if v is not None and name not in (*PLACES, *derived, *NAMES)}
            position = (row["line"],) if by_line else (table, k)
            before = found.get(position, Row(None, frozenset()))
            found[position] = Row(row.get("rank") if before.rank is None else before.rank, before.values | values)
    return list(found.values())


def varied(text: str, rng: random.Random) -> str:
    """The line with other numbers of the same widths."""

    def digits(match: re.Match[str]) -> str:
        return "".join(str(rng.randint(1, 9)) if c.isdigit() else c for c in match[0])

    return _NUMBER.sub(digits, text)


def record_of(rank: int, text: str, rng: random.Random) -> str:
    """The line with other numbers, as one rank prints it: a rank that it prints is its own."""
    return _RANK.sub(lambda match: f"{match[1]}{rank}", varied(text, rng))


def numbers_in(line: str) -> set[float]:
    """The numbers that a line prints, durations such as `0:01:30` in seconds among them."""
    times = (sum(60**k * float(part) for k, part in enumerate(reversed(m[0].split(":")))) for m in _TIME.finditer(line))
    return {*(float(m[0]) for m in _PRINTED.finditer(line)), *times}


def is_printed(value: str, numbers: set[float]) -> bool:
    """Whether a value, not a text, is one of some numbers, perhaps in another unit."""
    try:
        wanted = float(value)
    except ValueError:
        return True
    return any(abs(wanted - number * unit) <= 1e-12 * abs(wanted) for number in numbers for unit in _UNITS)


def written(lines: Mapping[int, list[str]], rng: random.Random) -> tuple[str, int]:
    """The lines as they come out of one pipe, and how many of them are whole."""
    left, held, out, whole = {rank: list(texts) for rank, texts in lines.items()}, (-1, ""), "", 0
    while any(left.values()):
        rank = rng.choice([rank for rank, texts in left.items() if texts])
        if rank == held[0] or (held[1] and rng.random() < 0.3):
            out, held = out + held[1], (-1, "")
            continue
        text = left[rank].pop(0)
        if rng.random() < 0.1 and not held[1]:
            cut = rng.randrange(1, len(text) - 1)
            out, held = out + text[:cut], (rank, text[cut:])
        else:
            out, whole = out + text, whole + 1
    return out + held[1], whole


def torn(name: str, text: str, label: str, ranks: int, seed: int) -> tuple[list[Row], float, float]:
    """Read a torn log. Return the wrong rows, and how many rows whole lines should give and gave."""
    rng, width = random.Random(seed), len(str(ranks - 1))
    lines = {
        rank: [f"{LABELS[label](rank, width)}{record_of(rank, text, rng)}\n" for _ in range(max(2, 48 // ranks))]
        for rank in range(ranks)
    }
    try:
        clean = read("".join(line for of_rank in lines.values() for line in of_rank).encode())
    except PerflogError:  # a line that proves no format by itself
        return [], 0, 0
    right = rows(clean, by_line=True)
    log, whole = written(lines, rng)
    try:
        got = rows(read(log.encode()))
    except PerflogError:
        return [], 0, 0

    printed = [(rank, numbers_in(line)) for rank, of_rank in lines.items() for line in of_rank]

    def is_right(row: Row) -> bool:
        """Whether one line of the rank has these values: of any rank if its label is torn."""
        if any(row.values <= each.values and row.rank in (None, each.rank) for each in right):
            return True
        return any(
            row.rank in (None, rank) and all(is_printed(v, numbers) for v in row.values) for rank, numbers in printed
        )

    wrong = [row for row in got if not is_right(row)]
    return wrong, len(rows(clean)) * whole / sum(map(len, lines.values())), len(got) - len(wrong)


@examples(12)
@given(st.data())
def test_a_torn_log_gives_no_wrong_figure(data: st.DataObject) -> None:
    name, text = data.draw(st.sampled_from(samples()))
    label, ranks = data.draw(st.sampled_from(sorted(LABELS))), data.draw(st.sampled_from((2, 3, 8, 16, 64)))
    wrong, _, _ = torn(name, text, label, ranks, data.draw(st.integers(0, 1 << 30)))
    assert wrong == [], name


@pytest.mark.parametrize("label", LABELS)
def test_what_is_whole_is_read(label: str) -> None:
    text = dict(samples())["megatron/iteration"]
    shares = [torn("megatron/iteration", text, label, ranks, 7)[1:] for ranks in (4, 16)]
    assert sum(got for _, got in shares) >= 0.97 * sum(wanted for wanted, _ in shares)


@pytest.mark.parametrize("label", LABELS)
def test_a_number_without_the_label_of_all_lines_is_torn(label: str) -> None:
    text = dict(samples())["moe_layer/process"]
    lines = [f"{LABELS[label](rank, 1)}{text}\n" for rank in range(4)]
    head, tail = lines[1][:-9], lines[1][-9:]
    assert read("".join([lines[0], head, *lines[2:], tail, lines[3]]).encode()).rows("values") == []


def test_the_tail_of_a_torn_label_is_no_figure() -> None:
    text = dict(samples())["dllogger/text_took"]
    lines = [f"{LABELS['ray'](rank, 1)}{text}\n" for rank in range(4)]
    whole, cut = read("".join(lines).encode()), lines[1].index("d=")
    got = read("".join([lines[0], lines[1][:cut], lines[2], lines[1][cut:], lines[3]]).encode())
    assert {row["key"] for row in got.rows("values")} == {row["key"] for row in whole.rows("values")}


def test_the_label_directly_in_front_of_a_line_counts() -> None:
    text = dict(samples())["meters/mxnet_epoch"]
    lines = [f"{LABELS['srun'](rank, 2)}{text}\n" for rank in range(12)]
    torn = [f"{LABELS['srun'](2, 2)}{lines[9]}", f" 2:{lines[11]}"]  # a label in front of a whole line, and half of one
    ranks = {row["line"]: row.get("rank") for row in read("".join(lines + torn).encode()).rows("values")}
    assert ranks == {**{rank + 1: rank for rank in range(12)}, 13: 9, 14: None}


def test_a_rank_that_a_record_prints_again_cuts_it_not() -> None:
    text = dict(samples())["prime_rl/step_early"]
    lines = [f"[Rank {rank}] {text.replace('Rank 0', f'Rank {rank}')}\n" for rank in range(12)]
    got = read("".join([*lines[:8], "[Rank 8", lines[9], lines[8][7:], *lines[10:]]).encode())
    assert [row["rank"] for row in got.rows("steps")] == [*range(8), 9, 10, 11]
    assert {row["tokens_per_s"] for row in got.rows("steps")} == {76539.15}


@pytest.mark.parametrize("name", ["meters/timm", "litgpt/validation"])
@pytest.mark.parametrize("label", ["mpirun", "ray", "torchrun"])
def test_a_tail_that_begins_with_a_number_has_no_figure_of_it_and_no_rank(name: str, label: str) -> None:
    text = dict(samples())[name]
    lines = [f"{LABELS[label](rank, 2)}{text}\n" for rank in range(64)]
    position = lines[0].rindex("04.35") if name == "meters/timm" else lines[0].index("iter ") + 5
    torn = [part for k in range(56, 64, 2) for part in (lines[k][:position], lines[k + 1], lines[k][position:])]
    got = read("".join([*lines[:56], *torn]).encode())
    of_tails = [row for row in got.rows("values") if row["line"] > 56 and row["line"] % 2 == 0]
    assert all(row.get("rank") is None and row["value"] != 4.35 for row in of_tails)


def test_a_tail_that_is_read_as_a_line_cuts_no_whole_line() -> None:
    """Tails that begin at a number or inside a word are the end of each line of an unknown program."""
    line = "{}: 22:58:{:02} | INFO | trainer | step {}/120 | loss={:.3f} | {} ms/step | 700.4k tok/s\n"
    lines = [line.format(rank, s, s, 9 - s / 50, 1500 + 10 * s + rank) for s in range(1, 31) for rank in range(4)]
    for at, byte in ((50, 27), (70, 52), (90, 33)):
        lines[at : at + 2] = [lines[at][:byte] + lines[at + 1] + lines[at][byte:]]
    steps = read("".join(lines).encode()).rows("steps")
    assert len(steps) >= 114
    assert all(round(row["step_time_s"] * 1000) == 1500 + 10 * row["step"] + row["rank"] for row in steps)


def test_a_tail_that_looks_like_half_a_line_of_another_program_is_not_read() -> None:
    text = dict(samples())["litgpt/validation"]  # behind its step, it begins as a line of llm.c does
    lines = [f"{LABELS['srun'](rank % 8, 1)}{text}\n" for rank in range(24)]
    position = lines[10].index("0: val")  # the end of the step, with what looks like a label
    got = read("".join([*lines[:10], lines[10][:position], lines[11], lines[10][position:], *lines[12:]]).encode())
    assert [row["line"] for row in got.rows("values") if row["key"] == "val_loss"] == [*range(1, 12), *range(13, 25)]


def test_an_object_behind_the_head_of_its_record_begins_none() -> None:
    text = dict(samples())["mlperf/old_measured"]
    lines = [f"[rank{rank}]:{text}\n" for rank in range(6)]
    position = lines[5].index("{")  # the tail is a line of JSON for itself
    got = read("".join([*lines[:4], lines[5][:position], lines[4], lines[5][position:]]).encode())
    assert [row["line"] for row in got.rows("values") if row["key"] == "eval_accuracy"] == [1, 2, 3, 4, 5]


GLUED = {  # a line of a rank and a step; numbers of fixed widths are varied
    "bars": "Rank {r} | Step {s} | loss: 2.1234 | grad_norm: 1.2345",
    "dashes": "rank {r} - iter {s} - loss 2.1234 - time 123.45 ms",
    "keys": "rank={r} step={s} loss=2.1234 lr=0.0003 time=1.234s throughput=123.4 samples/s",
    "printed": "[rank {r}] step {s}: loss 2.1234, time 123.45 ms, 1234 tok/s",
    "logging": "2026-01-01 10:00:{s:02},123 INFO [rank {r}] step={s} loss=2.1234 tokens_per_sec=1234.5",
    "titan": "[rank{r}]:[titan] 2026-01-01 10:00:{s:02},123 - root - INFO - step: {s:2}  loss:  7.1234"
    "  grad_norm:  1.2345  memory: 28.12GiB(35.12%)  tps: 1,234  tflops: 123.45  mfu: 12.34%",
    "srun": "{r}: step {s:05}/10000 (0.12%) | loss: 8.123456 | dt: 123.45ms | tok/sec: 123,456 | mfu: 12.34",
    "mpirun": "[1,{r}]<stdout>:{{'loss': 1.1234, 'grad_norm': 1.123456, 'learning_rate': 1.1234e-07, 'epoch': 0.12}}",
    "objects": '{{"rank": {r}, "step": {s}, "loss": 2.1234, "lr": 0.0003, "tokens_per_second": 1234.5}}',
    "megatron": "[default{r}]: iteration {s:8}/     100 | lm loss: 1.1234E+00 |",
    "epochs": "GPU {r} Epoch: [0][{s}/100]\tTime 0.123 (0.123)\tData 0.123 (0.123)\tLoss 1.1234e+00 (1.1234e+00)",
}


@pytest.mark.parametrize("shape", GLUED)
def test_lines_whose_line_feeds_are_written_later_are_read_as_whole_ones(shape: str) -> None:
    """Each process writes a line and its line feed by themselves, as `python -u` does."""
    rng, left, out = random.Random(shape), dict.fromkeys(range(4), 12), ""
    is_inside, whole = dict.fromkeys(left, False), []
    while left:
        rank = rng.choice([*left])
        if is_inside[rank]:
            out, left[rank] = out + "\n", left[rank] - 1
        else:
            text = GLUED[shape].format(r=rank, s=13 - left[rank])
            whole.append(_VARIED.sub(lambda m: f"{m[1]}{rng.randrange(10 ** len(m[2])):0{len(m[2])}}", text))
            out += whole[-1]
        is_inside[rank] ^= True
        left = {rank: count for rank, count in left.items() if count}
    got, wanted = (Counter(rows(read(log.encode()))) for log in (out, "".join(f"{line}\n" for line in whole)))
    assert got == wanted


def test_a_rank_is_below_the_world_size() -> None:
    bench = next(line.samples[0] for line in known()["moe_layer"].lines if line.name == "bench")  # of 4 ranks
    log = read(f"{bench}\n3 wait time: 2.5\n3123 wait time: 3.5\n".encode())
    assert [(row["rank"], row["time_s"]) for row in log.rows("phases")] == [(3, 0.0025), (None, 0.0035)]


@pytest.mark.parametrize("number", ["97,5", "97 234.5", "97'234.5", "97.#INF", '"97,5"', "9" * 400, "1e400"])
def test_a_number_that_goes_on_is_read_whole_or_not_at_all(number: str) -> None:
    """Each replaces one number of a line; what is stored of the line is what it else prints."""
    rng = random.Random(number)
    for name, text in rng.sample(samples(), 6):
        lines = [varied(text, rng) for _ in range(4)]
        positions = [*_NUMBER.finditer(lines[3])]
        if not positions or '": [' in text:  # `[1, 97,5]` is a list of three numbers
            continue
        position = rng.choice(positions)
        before, behind = lines[3][: position.start()], lines[3][position.end() :]
        if re.search(r"\[[0-9,. ]*$", before):  # so is it here
            continue
        try:
            log = read("\n".join([*lines[:3], f"{before}{number}{behind}\n"]).encode())
        except PerflogError:
            continue
        printed = numbers_in(f"{before} ; {behind}").union(*map(numbers_in, lines[:3]), {97234.5})
        of_line = {value for row in rows(log) for value in row.values}
        whole = {value for row in rows(read("\n".join([*lines, ""]).encode())) for value in row.values}
        assert [x for x in of_line - whole if not is_printed(x, printed)] == [], (name, before, behind)


@examples(12)
@given(st.data())
def test_the_last_number_of_a_log_without_line_feed_is_no_figure_unless_it_is_whole(data: st.DataObject) -> None:
    name, text = data.draw(st.sampled_from(samples()))
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    lines = [varied(text, rng) for _ in range(4)]
    cut = data.draw(st.integers(2, len(text)))
    try:
        whole, got = (
            rows(read(log.encode())) for log in ("\n".join([*lines, ""]), "\n".join([*lines[:3], lines[3][:cut]]))
        )
    except PerflogError:
        return
    assert [row for row in got if not any(row.values <= each.values for each in whole)] == [], (name, lines[3][:cut])


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("moe_layer/summary", "backward = 9."),  # the point of the number, not that of the sentence
        ("nccl_tests/memory", "Collective 724 "),  # MB
    ],
)
def test_the_last_number_of_a_log_lacks_what_may_follow(name: str, end: str) -> None:
    text = dict(samples())[name]
    cut = text[: text.index(end.split(maxsplit=1)[0])] + end
    got = {value for row in rows(read(f"{text}\n{cut}".encode())) for value in row.values}
    assert got <= {value for row in rows(read(f"{text}\n".encode())) for value in row.values}
