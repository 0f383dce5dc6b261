"""Logs that container runtimes keep: they are read as the lines of the programs inside them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import Reading, read, sample_lines

from perflog.parsing.input.containers import Unwrapper, holds_records
from perflog.parsing.input.source import Source

TIME = "2026-05-18T16:04:%02d.338412345Z"
ITERATION = (
    " iteration %8d/  250000 | consumed samples:       186368 | elapsed time per iteration (ms): %.1f | "
    "learning rate: 1.365E-05 | global batch size:  1024 | lm loss: 2.382640E+00 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |"
)
LINES = [ITERATION % (step, 126995.3 + step) for step in range(182, 190)]


def docker(text: str, second: int = 0, **more: Any) -> str:
    return json.dumps({"log": f"{text}\n", "stream": "stdout", "time": TIME % second, **more})


def cri(text: str, second: int = 0, tag: str = "F") -> str:
    return f"{TIME % second} stdout {tag} {text}"


def pod(text: str, second: int = 0) -> str:
    members = {"log": f"{text}\n", "stream": "stderr", "time": TIME % second}
    return json.dumps(members | {"kubernetes": {"pod_name": "train-0", "container_name": "main"}})


def cloud(text: str, second: int = 0) -> str:
    members = {"textPayload": text, "timestamp": TIME % second, "insertId": "x"}
    return json.dumps(members | {"resource": {"labels": {"pod_name": "train-0"}}})


def figures(got: Reading) -> dict[str, Counter[str]]:
    """What is read, apart from what the runtime adds: the time of the line, and the pod."""
    without = ("run", "printed_ns", "clock", "log_sha256", "source")
    return {
        name: Counter(repr({k: v for k, v in row.items() if k not in without}) for row in got.rows(name))
        for name in ("steps", "phases", "values", "loads", "summaries")
    }


@pytest.mark.parametrize("wrap", [docker, cri, pod, cloud])
def test_a_log_in_records_is_read_as_the_log_itself(wrap: Any) -> None:
    wrapped = "".join(f"{wrap(line, k)}\n" for k, line in enumerate(LINES))
    got, bare = read(wrapped.encode()), read("".join(f"{line}\n" for line in LINES).encode())
    assert got.done.formats == bare.done.formats == ["megatron"]
    assert figures(got) == figures(bare)
    assert {r["clock"] for r in got.rows("steps")} == {"utc"}
    assert got.done.lines["unread"] == 0


@pytest.mark.parametrize("name", ["moe_layer", "nvprof", "training_sweep"])
def test_all_lines_of_a_program_are_read_in_records(name: str) -> None:
    lines = [line.decode() for line in sample_lines(name)]
    got = read("".join(f"{docker(line)}\n" for line in lines).encode())
    assert figures(got) == figures(read("".join(f"{line}\n" for line in lines).encode()))


@pytest.mark.parametrize("is_last", [False, True])
def test_a_divided_line_is_one(is_last: bool) -> None:
    first, second = LINES[0][:70], LINES[0][70:]
    records = [docker(first)[:-1].replace("\\n", "", 1) + "}", docker("between", stream="stderr"), docker(second)]
    assert json.loads(records[0])["log"] == first
    got = read("\n".join([*records, *([] if is_last else [docker(LINES[1])])]).encode())
    assert [(r["line"], r["step"]) for r in got.rows("steps")] == [(1, 182), *([] if is_last else [(4, 183)])]
    got = read("\n".join([cri(first, tag="P"), cri(second), cri(LINES[1])]).encode())
    assert [(r["line"], r["step"]) for r in got.rows("steps")] == [(1, 182), (3, 183)]


def test_states_of_a_bar_and_colours_inside_records() -> None:
    both = f"{LINES[0]}\r\x1b[32m{LINES[1]}\x1b[0m"
    got = read(f"{docker('')}\n{docker(both)}\n".encode())
    assert [(r["line"], r["part"], r["step"]) for r in got.rows("steps")] == [(2, 0, 182), (2, 1, 183)]


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 1, "loss": 2.5, "message": "m"}',
        '{"level": "info", "ts": 1.5, "msg": "step 1 loss 2.5"}',
        '{"log": "x", "stream": "stdout", "loss": 2.5}',
        '{"log": {"loss": 2.5}, "stream": "stdout"}',
        "2026-05-18T16:04:46.3384Z INFO step 1",
        "",
    ],
)
def test_other_lines_are_no_records(line: str) -> None:
    assert not holds_records(f"{line}\n".encode())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_records_may_end_as_on_windows(end: str) -> None:
    """An empty line has a record too, and stays empty."""
    log = "".join(f"{line}{end}" for line in (cri("a"), cri("").rstrip(), cri("b"))).encode()
    unwrapper = Unwrapper()
    text = unwrapper.feed(log) + unwrapper.finish()
    assert holds_records(log)
    assert text.decode() == "".join(f"[pod/stdout {TIME % 0}] {line}\n" for line in ("a", "", "b"))


PIECES = [
    docker("a").encode(), cri("b").encode(), cri("c", tag="P").encode(), b'{"log":"d"', b"\xff", b"\r", b"\n", b"x",
]  # fmt: skip


@examples(60)
@given(st.lists(st.sampled_from(PIECES)).map(b"".join), st.lists(st.integers(0, 400), max_size=5))
def test_line_feeds_stay_and_pieces_do_not_matter(log: bytes, cuts: list[int]) -> None:
    whole = Unwrapper()
    text = whole.feed(log) + whole.finish()
    assert text.count(b"\n") == log.count(b"\n")
    bounds = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    pieces = Unwrapper()
    parts = [pieces.feed(log[a:b]) for a, b in pairwise(bounds)]
    assert b"".join(parts) + pieces.finish() == text


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pod.log"
    path.write_text(f"{docker(LINES[0])}\n", encoding="utf-8")
    bare = tmp_path / "bare.log"
    bare.write_text(f"{LINES[0]}\n", encoding="utf-8")
    assert Source("a", str(path)).digest() != Source("b", str(bare)).digest()


@pytest.mark.parametrize("label", ["", "[rank0]:"])
@pytest.mark.parametrize("wrap", ["kubectl", "fluentd"])
def test_pods_that_print_the_same_steps_are_told_apart(wrap: str, label: str) -> None:
    """Their ranks are not known; of local ranks, which all have the same, neither."""
    text = (
        "{}[titan] 2026-01-01 10:00:{:02d},000 - root - INFO - step: {:2d}  loss:  9.1  memory: 28.0GiB(91.0%)  tps: {}"
    )
    lines = [(p, text.format(label, s, s, 5000 + 1000 * (p != 2))) for s in range(1, 9) for p in range(4)]
    if wrap == "kubectl":
        log = "".join(f"[pod/train-{p}/main] {line}\n" for p, line in lines)
    else:
        of_pod = ({"stream": "stderr", "kubernetes": {"pod_name": f"train-{p}"}} for p, _ in lines)
        log = "".join(
            f"{json.dumps({'log': line + chr(10), **more})}\n" for (_, line), more in zip(lines, of_pod, strict=True)
        )
    steps = read(log.encode()).rows("steps")
    end = ("/main" if wrap == "kubectl" else "") + (", local rank 0" if label else "")
    assert {row["source"]: row["tokens_per_s"] for row in steps} == {
        f"train-{p}{end}": 5000 + 1000 * (p != 2) for p in range(4)
    }
    assert {(row.get("rank"), row["copy"]) for row in steps} == {(None, 1)}


def test_a_rank_that_only_one_pod_prints_is_a_rank() -> None:
    lines = (f"[pod/train-{r // 2}/main] [rank{r}]:{LINES[s]}\n" for s in range(8) for r in range(4))
    steps = read("".join(lines).encode()).rows("steps")
    assert sorted({(row["rank"], row.get("source")) for row in steps}) == [(r, None) for r in range(4)]
