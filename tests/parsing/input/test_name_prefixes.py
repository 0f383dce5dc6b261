"""Names of nodes, services and pods that a launcher puts in front of the lines of its processes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import read

from perflog.parsing.input.name_prefixes import name_prefixes

LAUNCHERS = {
    "pdsh": ("worker-{}: ", "worker-{}"),
    "addresses": ("10.0.0.{}: ", "10.0.0.{}"),
    "compose": ("trainer-{}  | ", "trainer-{}"),
    "stern": ("moe-worker-{} pytorch ", "moe-worker-{}"),
    "stern_random": ("moe-7d9f8-x{}z4k pytorch ", "moe-7d9f8-x{}z4k"),
}
PROGRAM = ("loading the data", "model of 7.1 B parameters", "start of training")
STEP = " iteration {step:8}/     100 | elapsed time per iteration (ms): {time:.1f} | lm loss: 7.123456E+00 |"


def log_of(prefix: str) -> str:
    """What four processes print, each line behind a prefix with the number of its process."""
    begin = [prefix.format(k) + text for text in PROGRAM for k in range(4)]
    steps = [
        prefix.format(k) + STEP.format(step=step, time=1000 + 10 * k + step) for step in range(1, 9) for k in range(4)
    ]
    return "\n".join([*begin, *steps, ""])


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_steps_are_those_of_the_named_processes(launcher: str) -> None:
    prefix, name = LAUNCHERS[launcher]
    steps = read(log_of(prefix).encode()).rows("steps")
    got = {(row["source"], row["step"], round(row["step_time_s"] * 1000)) for row in steps}
    assert got == {(name.format(k), step, 1000 + 10 * k + step) for step in range(1, 9) for k in range(4)}
    assert {row.get("rank") for row in steps} == {None}


def test_a_rank_in_front_of_all_lines_is_the_rank() -> None:
    steps = read(log_of("Rank_{}: ").encode()).rows("steps")
    assert [row["rank"] for row in steps if row["step"] == 5] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "log",
    [
        log_of("layer{}: "),
        "".join(f"STEP-{step}: {what} {step}.5 ms\n" for step in range(30) for what in ("a", "b", "c", "d")),
        "".join(f"gpu-node{k}: {60 + n} C\n" for n in range(20) for k in range(4)),  # a monitor's only figure
        "".join(f"fp8-{k} | {n} | {what}\n" for what in ("a", "b", "c") for n in range(5) for k in (n,)),
        "one-1 two three\n",
        "",
    ],
    ids=["layers", "steps", "monitor", "table", "one line", "nothing"],
)
def test_what_a_program_numbers_itself_is_no_name(log: str) -> None:
    assert name_prefixes(log.encode()) is None


@examples(30)
@given(st.sampled_from(sorted(LAUNCHERS)), st.lists(st.integers(0, 3000), max_size=12))
def test_the_blocks_of_a_log_do_not_matter(launcher: str, cuts: list[int]) -> None:
    data = log_of(LAUNCHERS[launcher][0]).encode()
    prefixes = name_prefixes(data)
    assert prefixes is not None
    cuts = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    blocks = [data[begin:end] for begin, end in pairwise(cuts)]
    assert b"".join(prefixes.labelled(iter(blocks))) == b"".join(prefixes.labelled(iter([data])))


def test_a_line_without_an_end_is_passed_on_as_it_comes() -> None:
    data = log_of(LAUNCHERS["pdsh"][0]).encode()
    prefixes = name_prefixes(data)
    assert prefixes is not None
    endless = [data, b"worker-1: ", *[b"worker-2: x" * 100] * 50, b"y\nworker-3: z\n"]
    labelled = list(prefixes.labelled(iter(endless)))
    assert max(map(len, labelled[2:])) < 2_500  # no block waits for the end of the line
    assert b"".join(labelled).endswith(b"[pod/worker-1] " + b"worker-2: x" * 5_000 + b"y\n[pod/worker-3] z\n")
