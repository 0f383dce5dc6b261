"""Names of nodes, services and pods that a launcher puts in front of the lines of its processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
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


def lines_of(names: Sequence[str], *kinds: str, separator: str = ": ") -> list[str]:
    """Lines of each kind in turn, from each name in turn."""
    return [f"{name}{separator}{kind}" for kind in kinds for name in names]


def found(lines: Sequence[str]) -> bool:
    return name_prefixes("\n".join(lines).encode()) is not None


def test_two_names_with_three_kinds_of_lines_are_enough() -> None:
    lines = lines_of(["worker-0", "worker-1"], "a", "b", "c")
    assert found(lines)
    assert found([text for line in lines for text in ("", line)])  # blank lines do not count
    assert not found(lines_of(["worker-0", "worker-1"], "a", "b"))
    assert not found(lines_of(["worker-0", "worker-1"], "a 1", "a 2", "a 3", "a 4"))  # one kind


def test_names_have_to_alternate() -> None:
    assert found(["worker-0: a", "worker-1: a", "worker-0: b", "worker-0: c"])
    assert not found(["worker-0: a", "worker-0: b", "worker-0: c", "worker-1: a", "worker-1: b", "worker-1: c"])
    assert not found(lines_of(["worker-0"], *"abcabc"))


def test_names_share_a_kind_of_lines() -> None:
    own = ["a-0: one", "a-1: two", "a-0: three", "a-1: four", "a-2: five", "a-0: six"]
    assert not found(own)
    assert found([*own, "a-2: one"])


def test_nearly_all_lines_have_a_name() -> None:
    lines = lines_of(["worker-0", "worker-1", "worker-2"], "a", "b", "c")
    assert found([*lines, "one without"])  # nine of ten
    assert not found([*lines[:8], "one without", "another one"])
    assert found(["trainer-0 | x", *lines, *lines])  # a line of another launcher is a line without
    many = lines_of(["worker-0", "worker-1"], *"abcdefghij") * 20
    assert found([*many, *["without"] * 300]) and not found(["without"] * 300 + many)  # the first 400 count


@pytest.mark.parametrize(("separator", "most"), [(": ", 2), (" | ", 16), (" pytorch ", 2)])
def test_names_of_several_kinds_of_nodes(separator: str, most: int) -> None:
    names = [f"{chr(ord('a') + kind) * 5}-{number}" for kind in range(most + 1) for number in (0, 1)]
    assert found(lines_of(names[:-2], "a", "b", "c", separator=separator))
    assert not found(lines_of(names, "a", "b", "c", separator=separator))


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("size", [1, 2, 7, 100, 1 << 20])
def test_names_become_labels_whatever_the_blocks_of_the_log(launcher: str, size: int) -> None:
    prefix, name = LAUNCHERS[launcher]
    data = log_of(prefix).encode()
    prefixes = name_prefixes(data)
    assert prefixes is not None
    blocks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    assert b"".join(prefixes.labelled(iter(blocks))).decode() == log_of(f"[pod/{name}] ")


def test_a_line_without_an_end_is_passed_on_as_it_comes() -> None:
    data = log_of(LAUNCHERS["pdsh"][0]).encode()
    prefixes = name_prefixes(data)
    assert prefixes is not None
    endless = [data, b"worker-1: ", *[b"worker-2: x" * 100] * 50, b"y\nworker-3: z\n"]
    labelled = list(prefixes.labelled(iter(endless)))
    assert max(map(len, labelled[2:])) < 2_500  # no block waits for the end of the line
    assert b"".join(labelled).endswith(b"[pod/worker-1] " + b"worker-2: x" * 5_000 + b"y\n[pod/worker-3] z\n")
