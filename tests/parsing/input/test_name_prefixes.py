"""Names of nodes, services and pods that a launcher puts in front of the lines of its processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.reading import read

from perflog.parsing.input.name_prefixes import ends_in_word, name_prefixes

LAUNCHERS = {
    "pdsh": ("worker-{}: ", "worker-{}"),
    "addresses": ("10.0.0.{}: ", "10.0.0.{}"),
    "compose": ("trainer-{}  | ", "trainer-{}"),
    "stern": ("moe-worker-{} pytorch ", "moe-worker-{}"),
    "stern_random": ("moe-7d9f8-x{}z4k pytorch ", "moe-7d9f8-x{}z4k"),
    "Ray": ("(Trainer pid=710{0}, ip=10.0.0.{0}) ", "Trainer-pid-710{0}"),
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


def test_ray_s_name_before_a_rank_is_no_other_name() -> None:
    assert name_prefixes(log_of("(Trainer pid=7{0}) [rank{0}]:").encode()) is None


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
    stays = prefix if launcher == "Ray" else ""
    assert b"".join(prefixes.labelled(iter(blocks))).decode() == log_of(f"[pod/{name}] {stays}")


def test_a_line_without_an_end_is_passed_on_as_it_comes() -> None:
    data = log_of(LAUNCHERS["pdsh"][0]).encode()
    prefixes = name_prefixes(data)
    assert prefixes is not None
    endless = [data, b"worker-1: ", *[b"worker-2: x" * 100] * 50, b"y\nworker-3: z\n"]
    labelled = list(prefixes.labelled(iter(endless)))
    assert max(map(len, labelled[2:])) < 2_500  # no block waits for the end of the line
    assert b"".join(labelled).endswith(b"[pod/worker-1] " + b"worker-2: x" * 5_000 + b"y\n[pod/worker-3] z\n")


def step_lines(
    prefix: str, processes: int = 3, steps: int = 4, text: str = "iter {step} loss 2.98 time 1.5 s"
) -> bytes:
    """One kind of line alone, as `grep step` leaves a log: each process prints each step."""
    lines = (prefix.format(k) + text.format(step=step) for step in range(1, steps + 1) for k in range(processes))
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize(
    ("prefix", "label"),
    [
        ("node{:02}: ", "[pod/node01] "),
        ("[node-{}] ", "[pod/node-1] "),
        ("2026-11-30 10:00:02,123 [node{}] [INFO] ", "[pod/node1] 2026-11-30 10:00:02,123 [INFO] "),
        ("[2026-11-30 10:00:02] INFO [worker {}] ", "[pod/worker-1] [2026-11-30 10:00:02] INFO "),
        ("2026-11-30 10:00:02 node{} [INFO] ", "[pod/node1] 2026-11-30 10:00:02 [INFO] "),
        ("[GPU{}] ", "[pod/GPU1] "),
        ("(cuda:{}) ", "[pod/cuda-1] "),
        ("process {}: ", "[pod/process-1] "),
        ("[{}] ", "[pod/process-1] "),
        ("[TP{}] ", "[pod/TP1] "),
        ("[2026-11-30 10:00:02 DP{} TP0] ", "[pod/DP1-TP0] [2026-11-30 10:00:02] "),
        ("{} | ", "[pod/process-1] "),
        ("Nov 30 10:00:02 node{0} python[12{0}]: ", "[pod/node1-python-121] Nov 30 10:00:02 "),
        ("2026-11-30T10:00:02+00:00 node{} train: ", "[pod/node1-train] 2026-11-30T10:00:02+00:00 "),
        ("rank{}: ", "[rank1]:"),
        ("10:00:02 Rank {} | ", "[rank1]:10:00:02 "),
        ("10:00:02 [rank{}] ", "[rank1]:10:00:02 "),
        ("10:00:02 rank{} ", "[rank1]:10:00:02 "),
        ("[node-{}][rank 0] ", "[pod/node-1] [rank0]:"),
        ("<{}> ", "[pod/process-1] "),
        ("node1 gpu0 rank{}: ", "[pod/node1] [rank1]:"),
        ("10:00:02 | node1 | r{} | ", "[pod/node1] [rank1]:10:00:02 | "),
    ],
)
def test_names_that_distinguish_the_lines_of_a_step(prefix: str, label: str) -> None:
    data = step_lines(prefix)
    prefixes = name_prefixes(data)
    assert prefixes is not None
    assert b"".join(prefixes.labelled(iter([data]))).splitlines()[1].decode() == label + "iter 1 loss 2.98 time 1.5 s"


@pytest.mark.parametrize(
    "log",
    [
        step_lines("[rank {}] "),  # formats know it
        step_lines("[default{}]: "),
        step_lines("[stage {}] "),
        step_lines("[{}/3] "),
        "".join(f"[{k}/4] step {step} loss 2.5\n" for step in range(12) for k in (2, 4)).encode(),
        step_lines("expert {}: "),
        step_lines("micro {} | "),
        step_lines("model.layers.{}.mlp: "),
        step_lines("[env {}] "),
        step_lines("[dataset{}] "),
        step_lines("r={}: ").replace(b"r=0", b"r=8"),  # LoRA's ranks
        step_lines("param_group {}: "),
        step_lines("[node{}] ", steps=2),  # two steps may be a coincidence
        step_lines("[node{}] ", processes=1),
        step_lines("[node{}] ", text="fan 1200 rpm"),
        step_lines("[node{}] ", text="iter 1 loss 2.98"),  # one step, printed again
        b"".join(step_lines(f"round {k}: ", processes=1) for k in range(4)),  # one after the other
        "".join(f"[node{k}] step {step} loss 2.5\n" for step in range(12) for k in (step % 3,)).encode(),  # in turn
        "".join(
            f"{name}: step {first + k} loss 2.5\n"
            for first in (1, 5, 9)
            for name in ("gpt2", "llama3")
            for k in range(4)
        ).encode(),
    ],
    ids=[
        "ranks",
        "local ranks",
        "stages",
        "counts",
        "each second count",
        "experts",
        "micro-batches",
        "parts of a model",
        "environments",
        "datasets",
        "ranks of matrices",
        "parameter groups",
        "two steps",
        "one process",
        "no steps",
        "one step",
        "rounds",
        "in turn",
        "models in turn",
    ],
)
def test_numbers_that_do_not_distinguish_the_lines_of_a_step(log: bytes) -> None:
    assert name_prefixes(log) is None


def test_counts_in_any_order_are_processes() -> None:
    lines = [f"[{k}/4] step {step} loss 2.5 time 1.5 s" for step in range(8) for k in (2, 0, 3, 1)]
    lines[1:3] = [lines[1][:22] + lines[2], lines[1][22:]]  # one inside another
    steps = read("\n".join(lines).encode()).rows("steps")
    whole = {(row["source"], row["step"]) for row in steps if row["loss"] is not None}
    assert whole == {(f"{k}/4", step) for step in range(8) for k in range(4)} - {("0/4", 0)}
    assert {row.get("rank") for row in steps} == {None}


def test_a_step_may_be_padded() -> None:
    assert name_prefixes(step_lines("[node{}] ", text=" iteration {step:8}/     100 | lm loss: 7.1")) is not None


def test_an_epoch_counts_its_steps_anew() -> None:
    epochs = (step_lines("[node{}] ", text=f"epoch {epoch} step {{step}} loss 2.98") for epoch in range(4))
    assert name_prefixes(b"".join(epochs)) is not None


def test_an_attempt_prints_steps_again() -> None:
    again = step_lines("rank {} | ").replace(b"iter ", b"iter 1")
    assert name_prefixes(again + step_lines("rank {} | ")) is not None


def test_equal_ranks_of_several_nodes_are_local() -> None:
    lines = [
        f"[node-{node}][rank {rank}] step {step} loss 2.5" for step in range(4) for node in (0, 1) for rank in (0, 1)
    ]
    steps = read("\n".join(lines).encode()).rows("steps")
    assert {row["source"] for row in steps} == {f"node-{node}, local rank {rank}" for node in (0, 1) for rank in (0, 1)}
    assert {row.get("rank") for row in steps} == {None}
    spread = [line.replace("node-1][rank ", "node-1][rank 1") for line in lines]  # ranks 10 and 11
    assert {row["rank"] for row in read("\n".join(spread).encode()).rows("steps")} == {0, 1, 10, 11}


@pytest.mark.parametrize(
    ("prefix", "column"),
    [
        ("[rank{}] ", "rank"),
        ("[global_rank={}] ", "rank"),
        ("10:00:05 [rank{}] ", "rank"),
        ("node00 gpu{0} rank{0}: ", "rank"),
        ("R{} | ", "rank"),
        ("worker {}: ", "source"),
        ("trainer-{}  | ", "source"),
    ],
)
def test_glued_and_torn_lines_keep_the_names_of_their_processes(prefix: str, column: str) -> None:
    def line(rank: int, step: int) -> str:
        return prefix.format(rank) + f"step {step}/90 | loss {step + rank / 10} | time {step}{rank}.25 ms"

    log = ""
    for step in range(1, 19):
        lines = [line(rank, step) for rank in range(4)]
        if step % 3 == 0:  # two write their line, then its end; one writes its line inside that of another
            first, second, third, fourth = lines
            cut = len(prefix) + 4 + step
            lines = [first + second, "", third[:cut] + fourth, third[cut:]]
        log += "\n".join([*lines, ""])
    rows = [row for row in read(log.encode()).rows("steps") if row["loss"] is not None]
    found = {(row[column] if column == "rank" else int(row[column][-1]), row["step"], row["loss"]) for row in rows}
    whole = {(rank, step, step + rank / 10) for step in range(1, 19) for rank in range(4) if step % 3 or rank != 2}
    assert found == whole
    assert len(rows) == len(found)


@pytest.mark.parametrize(("prefix", "label"), [("[rank{}] ", "[rank{}]:"), ("worker {}: ", "[pod/worker-{}] ")])
@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_names_inside_lines_become_labels_whatever_the_blocks(prefix: str, label: str, size: int) -> None:
    lines = [f"{prefix.format(rank)}step {step} loss {step}.5" for step in range(1, 20) for rank in range(4)]
    lines[30] += lines.pop(31)
    lines[20] = prefix.format(1) + lines[20]  # its write ended after the name
    lines[40] += f" after {prefix.format(3)}ended"  # no line begins so
    head = "\n".join([*lines, ""]).encode()
    names = name_prefixes(head)
    assert names is not None
    blocks = (head[begin : begin + size] for begin in range(0, len(head), size))
    expected = head.decode().replace(prefix.format(3) + "ended", "(3)")
    for rank in range(4):
        expected = expected.replace(prefix.format(rank), label.format(rank))
    assert b"".join(names.labelled(blocks)).decode() == expected.replace("(3)", prefix.format(3) + "ended")


@pytest.mark.parametrize("prefix", ["[rank{}] ", "worker {}: "])
def test_a_name_in_a_sentence_begins_no_record(prefix: str) -> None:
    lines = [f"{prefix.format(rank)}step {step} loss {step}.5" for step in range(1, 20) for rank in range(4)]
    sentence = "slow, see " + prefix.format(3) + "step 7"
    lines.insert(20, prefix.format(1) + sentence)
    head = "\n".join([*lines, ""]).encode()
    names = name_prefixes(head)
    assert names is not None
    labelled = b"".join(names.labelled(iter([head]))).decode()
    assert labelled.splitlines()[20].endswith(sentence)


def test_names_inside_lines_are_looked_for_where_a_name_may_begin() -> None:
    """Not at each of its letters: the letter of `r3: ` is in most words."""
    ranks, nodes, spread = (name_prefixes(step_lines(prefix)) for prefix in ("r{}: ", "[node-{}] ", "{} | "))
    assert ranks is not None and ranks.begins == [b"r[0-9]+"]
    assert nodes is not None and nodes.begins == [rb"\[node\-[0-9]+"]
    assert spread is not None and not spread.begins  # a number may be glued to the number before it


def test_the_words_before_a_label_are_looked_for_near_it() -> None:
    """A search of a whole line of one word takes a time that grows with the square of its length."""
    found = ends_in_word(b"x" * 1_000_000 + b" as, see ")
    assert found is not None and found[0] == b"as, see "
    assert ends_in_word(b"x" * 1_000_000 + b"1") is None and ends_in_word(b"step ") is not None
