"""Which lines are one failure, and what they report: messages of several lines, repetitions, summaries, restarts."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.torchrun import SUMMARY

from perflog.parsing.failures import failure_list
from perflog.parsing.failures import reader as module
from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.reader import FailureReader
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

BEGINS = "Traceback (most recent call last):\n"
TRACE = f'{BEGINS}  File "a.py", line 1, in f\n    f(x)\n'
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
GROUP = (
    '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in f\n'
    "  | ExceptionGroup: all failed (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
)
NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: a.cpp:3, unhandled system error, NCCL 2.19.3\n"
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
    "Last error:\nsocketStartConnect: Connect to 10.0.0.1<33> failed : Connection refused"
)
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"


def read(
    text: str, cut: int = 0, logs: Sequence[int] = (1,), runs: Sequence[int] = ()
) -> tuple[list[Failure], list[int], FailureReader]:
    """The failures and the lines of failures, of lines that no format reads, in two batches. `logs`, `runs`: lines."""
    lines = text.splitlines(keepends=True)
    reader, read_lines = FailureReader([line << PART_BITS for line in logs]), []
    for first, part in ((1, lines[:cut]), (cut + 1, lines[cut:])):
        chunk = as_chunk("".join(part).encode())
        chunk.first_line = first
        begin = [line << PART_BITS for line in runs if first <= line < first + len(part)]
        positions = reader.feed([], Scanner([]).scan(chunk), begin)
        read_lines += [position >> PART_BITS for position in positions.tolist()]
    return reader.finish(), read_lines, reader


def spans(text: str, **options: Any) -> list[tuple[int, int, str, int]]:
    """First and last line, kind and count of each failure."""
    return [(each.line, each.last_line, each.kind.name, each.count) for each in read(text, **options)[0]]


def labelled(text: str, label: str) -> str:
    return "".join(label + line for line in text.splitlines(keepends=True))


ONE = {
    "a traceback": (TRACE + "ValueError: bad\n", "exception", "ValueError: bad"),
    "with its lines indented": (
        "".join(f"  {line}\n" for line in (TRACE + "ValueError: bad").split("\n")), "exception", "ValueError: bad"
    ),
    "a cause with the exception that it led to": (
        f"{TRACE}KeyError: 'x'\n{DIRECT}{TRACE}RuntimeError: no\n", "exception", "KeyError: 'x'"
    ),
    "an exception that was raised while another was handled": (
        f"{TRACE}KeyError: 'x'\n{HANDLING}{TRACE}RuntimeError: no\n", "exception", "RuntimeError: no"
    ),
    "the later one says more": (f"{TRACE}KeyError: 'x'\n{DIRECT}{TRACE}{MEMORY}\n", "gpu_out_of_memory", MEMORY),
    "the first one says more": (
        f"{TRACE}{MEMORY}\n{HANDLING}{TRACE}RuntimeError: no\n", "gpu_out_of_memory", MEMORY
    ),
    "an assertion while it was handled": (
        f"{TRACE}AssertionError: x\n{HANDLING}{TRACE}RuntimeError: no\n", "assertion", "AssertionError: x"
    ),
    "where a worker raised it": (
        f"{TRACE}RuntimeError: Caught RuntimeError in DataLoader worker process 0.\nOriginal {TRACE}{MEMORY}\n",
        "gpu_out_of_memory", MEMORY,
    ),
    "where a worker raised the same": (
        f"{TRACE}{MEMORY} Caught.\nOriginal {TRACE}{MEMORY}\n", "gpu_out_of_memory", MEMORY
    ),
    "the first of a group": (
        f"{GROUP}    | {BEGINS}" + '    |   File "b.py", line 2, in g\n    | ValueError: one\n',
        "exception", "ValueError: one",
    ),
    "the frames of C++ after it": (
        "RuntimeError: CUDA error: device-side\nException raised from f at a.cpp:3:\nframe #0: c10\nframe #1: x\n",
        "gpu_error", "RuntimeError: CUDA error: device-side",
    ),
    "what NCCL adds": (
        f"{TRACE}{NCCL}\n", "link_error", NCCL
    ),
    "the message of a panic": (
        "thread 'main' panicked at src/a.rs:2:1:\nno index\n", "exception", "src/a.rs:2:1:\nno index"
    ),
    "what Ray wraps": (
        TRACE + 'ray.exceptions.RayTaskError(ValueError): ray::f()\n  File "b.py", line 3, in g\nValueError: bad\n',
        "exception", "ValueError: bad",
    ),
    "a cause of an exception of Ray that says more": (
        f"{TRACE}ray.exceptions.RayTaskError(OutOfMemoryError): ray::f()\n{MEMORY}\n", "gpu_out_of_memory", MEMORY
    ),
    "an exception without a message": (TRACE + "KeyboardInterrupt\n", "interrupted", "KeyboardInterrupt"),
    "a traceback that repeats its lines": (
        TRACE + "  [Previous line repeated 990 more times]\nRecursionError: deep\n", "exception", "RecursionError: deep"
    ),
    "a traceback with an empty line": (f"{TRACE}\n    y\nValueError: bad\n", "exception", "ValueError: bad"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_all_lines_of_a_message_are_one_failure(name: str) -> None:
    text, kind, message = ONE[name]
    count = text.count("\n")
    failures, lines, _ = read(f"step 1\n{text}step 2\n")
    assert [(each.line, each.last_line, each.kind.name, each.message) for each in failures] == [
        (2, count + 1, kind, message)
    ]
    blank = [k for k, line in enumerate(text.splitlines(), 2) if not line.strip()]
    assert sorted({*lines, *blank}) == list(range(2, count + 2))


@pytest.mark.parametrize("label", ["[rank3]: ", "[default3]:", "3: ", "[1,3]<stderr>:", "(Worker pid=7) "])
def test_a_label_before_each_line_changes_no_message(label: str) -> None:
    for name in ONE:
        text = f"step 1\n{ONE[name][0]}step 2\n"
        plain, named = (read(each)[0] for each in (text, labelled(text, label)))
        assert [(each.line, each.last_line, each.kind, each.message) for each in named] == [
            (each.line, each.last_line, each.kind, each.message) for each in plain
        ], name


@pytest.mark.parametrize("name", ONE)
def test_a_message_may_go_on_in_the_next_batch(name: str) -> None:
    text = f"step 1\n{ONE[name][0]}step 2\n"
    for cut in range(1, text.count("\n")):
        assert read(text, cut)[:2] == read(text)[:2], cut


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # frames are of the failure in the line before only
        ("RuntimeError: CUDA error: x\nstep 1\nframe #0: c10::Error\n", [(1, 1, "gpu_error", 1)]),
        # a quoted traceback begins none, and what follows is a message by itself
        (f"log: '{TRACE}ValueError: bad\n", [(4, 4, "exception", 1)]),
        (f'log: "{TRACE}ValueError: bad\n', [(4, 4, "exception", 1)]),
        (f"it's \"so\" 'quoted', isn't: {TRACE}ValueError: bad\n", [(1, 4, "exception", 1)]),
        # Python goes on after an exception that it ignores
        (f"Exception ignored in: <f>\n{TRACE}ValueError: bad\n{TRACE}KeyError: 'x'\n", [(6, 9, "exception", 1)]),
        (f"Exception ignored in: <f>\nstep 1\n{TRACE}ValueError: bad\n", [(3, 6, "exception", 1)]),
        # words that are no names of exceptions
        (f"{TRACE}ERROR: saving\nvalue: 3\nloss: x\nValueError: bad\n", [(1, 7, "exception", 1)]),
        (f"{TRACE}mylib.errors.empty: no\n", [(1, 4, "exception", 1)]),
        (f"{TRACE}myerror: no\n", [(1, 4, "exception", 1)]),
        # an exception is about what precedes it directly
        (f"{TRACE}ValueError: a\n{'step' + chr(10)}{HANDLING}{TRACE}KeyError: b\n",
         [(1, 4, "exception", 1), (9, 12, "exception", 1)]),
        # the indent of the exception is that of the program, not of more of its message
        ("  ValueError: bad\n  step 2\n", [(1, 1, "exception", 1)]),
        ("  ValueError: bad\n    more\n", [(1, 2, "exception", 1)]),
        ("".join(f"  {line}\n" for line in (TRACE + "ValueError: bad\nstep 2").split("\n")), [(1, 4, "exception", 1)]),
    ],
)  # fmt: skip
def test_where_a_message_begins_and_ends(text: str, expected: list[Any]) -> None:
    assert spans(text) == expected


def test_a_line_far_from_an_exception_is_none_of_its_message() -> None:
    """Four lines at most are between; of a labelled one, 256 lines of other ranks."""
    for label, most in (("", 4), ("[rank3]: ", 256)):
        for gap, is_more in ((most - 1, True), (most, False)):
            text = f"{label}{TRACE.replace(chr(10), chr(10) + label)}RuntimeError: no\n" + "\n" * gap
            lines = read(f"{text}{label}  more of it\n")[1]
            assert (lines[-1] == 5 + gap) == is_more, (label, gap)


def test_a_pod_that_was_scheduled_in_the_end_has_not_failed() -> None:
    failed = "  Warning  FailedScheduling  5m  scheduler  0/1 nodes are available: 1 Insufficient nvidia.com/gpu.\n"
    assert spans(failed) == [(1, 1, "launch_failed", 1)]
    assert (
        spans(f"{failed}  Normal  Scheduled  2m  default-scheduler  Successfully assigned ns/train-0 to gpu-7\n") == []
    )


def test_a_traceback_without_an_end_is_given_up_after_400_lines() -> None:
    quiet = "value 3\n" * 398
    assert spans(f"{BEGINS}{quiet}x\nValueError: bad\n") == [(1, 401, "exception", 1)]
    assert spans(f"{BEGINS}{quiet}x\ny\nValueError: bad\n") == [(1, 1, "exception", 1), (402, 402, "exception", 1)]
    (torn,) = read(f"[rank3]: {TRACE}")[0]
    assert (torn.message, torn.origin.rank) == ("Traceback (most recent call last)", 3)


def test_a_torn_traceback_in_a_launcher_reports_its_process() -> None:
    assert spans(TRACE.replace("a.py", "/env/torch/distributed/run.py")) == [(1, 1, "child_failed", 1)]


def test_a_torn_traceback_with_a_known_cause_is_none_of_its_own() -> None:
    assert spans(f"{TRACE}KeyError: 'x'\n{HANDLING}{TRACE}") == [(1, 6, "exception", 1)]


# --- values -----------------------------------------------------------------------------------------------------------


def test_an_exception_in_a_collective_names_its_operation() -> None:
    trace = TRACE.replace("a.py", "/env/torch/distributed/distributed_c10d.py").replace("in f", "in all_reduce")
    assert [each.values.get("op") for each in read(f"{trace}RuntimeError: gives up\n")[0]] == ["all_reduce"]
    assert [each.values.get("op") for each in read(f"{trace}ValueError: bad shape\n")[0]] == [None]
    assert [each.values.get("op") for each in read(f"{trace}{MEMORY}\n")[0]] == [None]
    later = f'{trace}  File "b.py", line 2, in g\n'
    assert [each.values.get("op") for each in read(f"{later}RuntimeError: gives up\n")[0]] == [None]


def test_a_traceback_that_a_launcher_repeats_is_of_the_process_that_it_names() -> None:
    spawned = (
        "torch.multiprocessing.spawn.ProcessRaisedException:\n\n-- Process 1 terminated with the following error:\n"
    )
    named = TRACE + spawned
    launcher, child = read(f"{named}{TRACE}ValueError: bad\n")[0]
    assert (launcher.kind.name, launcher.values["rank"], launcher.last_line) == ("child_failed", "1", 6)
    assert read(f"{named}step\n")[1] == [1, 2, 3, 4, 6]
    assert (child.line, child.last_line, child.values["rank"]) == (7, 10, "1")
    assert "rank" not in read(f"{named}step\n{TRACE}ValueError: bad\n")[0][1].values


def test_the_lines_of_an_exception_that_python_ignores_are_read() -> None:
    assert read(f"step\nException ignored in: <f>\n{TRACE}ValueError: bad\nstep\n")[:2] == ([], [2, 3, 4, 5, 6])


@pytest.mark.parametrize("label", ["", "[rank1]: "])
def test_torch_npu_names_the_process_after_an_error_and_before_what_the_device_reports(label: str) -> None:
    npu = "[ERROR] 2025-10-11-15:09:34 (PID:2969, Device:0, RankID:%d) ERR00100 PTA call acl api failed.\n"
    wait = "EI0002: [PID: 2969] The wait execution of the Notify register times out. Reason: x\n"
    lost = "RuntimeError: store->get() got error: HCCL_BLOCKING_WAIT\n"
    expected = 1 if label else 101
    for text in (npu % 101 + wait, lost + npu % 101):
        (failure,) = read(labelled(text, label))[0]
        assert (failure.origin.rank, failure.origin.gpu, failure.origin.node) == (expected, 0, None)
    assert read(npu % -1 + wait)[0][0].origin.rank is None
    assert read(npu % 101)[0] == []


def test_what_ray_adds_on_an_actor_that_died() -> None:
    died = f"{TRACE}ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    more = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR\n"
    (failure,) = read(f"{died}\tpid: 5226\n\tip: 10.7.34.138\n{more}")[0]
    assert (failure.last_line, failure.origin.node) == (7, "10.7.34.138")
    assert failure.message.endswith(f"task.\npid: 5226\nip: 10.7.34.138\n{more.strip()}")
    assert read(f"{died}step\n{more}")[0][0].last_line == 4


@pytest.mark.parametrize(
    ("stamp", "seconds", "clock"),
    [("2024-05-01 12:00:03,500 ", 1_714_564_803.5, "local"), ("12:00:03 ", 43_203, "no_date"), ("", None, None)],
)
def test_a_failure_has_the_time_before_its_first_line(stamp: str, seconds: float | None, clock: str | None) -> None:
    failure = read(f"{stamp}step 1\n{stamp}ValueError: bad\n")[0][0]
    assert (failure.time, failure.clock) == (None if seconds is None else round(seconds * 1e9), clock)


def test_a_program_caught_a_traceback_after_a_warning() -> None:
    assert [each.traced for each in read(f"WARNING: {TRACE}ValueError: bad\n")[0]] == [False]
    assert [each.traced for each in read(f"ERROR: {TRACE}ValueError: bad\n")[0]] == [True]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("=   EXIT CODE: 7", {"exit_code": "7"}),
        ("=   EXIT CODE: 9", {"signal": "9"}),
        ("=   KILLED BY SIGNAL: 11 (Segmentation fault)", {"signal": "11"}),
        ("Exit code:    1", {"exit_code": "1"}),
        ("=   CLEANING UP", {}),
    ],
)
def test_how_the_process_in_the_line_before_ended(line: str, values: dict[str, str]) -> None:
    named = "=   RANK 3 PID 2371 RUNNING AT cn041"
    (failure,) = read(f"step 1\n{named}\n{line}\n")[0]
    assert failure.values == {"rank": "3", "node": "cn041"} | values
    assert (failure.last_line, failure.message) == ((3, f"{named}\n{line}") if values else (2, named))
    failure = read(f"step 1\n{named}\nstep 2\n{line}\n")[0][0]
    assert (failure.last_line, failure.values) == (2, {"rank": "3", "node": "cn041"})


ON_NODE_3 = SUMMARY.replace(
    "node2\n  rank      : 11 (local_rank: 3)\n  exitcode  : -9 (pid: 4204)", "node3\n  rank      : 11\n  exitcode  : -9"
)


@pytest.mark.parametrize("label", ["", "[default0]:", "[rank0]: "])
def test_each_process_of_a_summary_is_a_failure(label: str) -> None:
    failures, lines, _ = read(labelled(ON_NODE_3, label))
    later, first = (each for each in failures if each.kind.name != "child_failed")
    assert (later.line, later.last_line, later.kind.name) == (5, 11, "later_failed")
    assert (first.line, first.last_line, first.kind.name) == (14, 20, "first_failed")
    assert [(each.origin.node, each.origin.rank, each.origin.local_rank) for each in (later, first)] == [
        ("node2", 9, 1), ("node3", 11, None)
    ]  # fmt: skip
    assert (later.values, first.values) == ({"exit_code": "1", "pid": "4202"}, {"exit_code": "-9"})
    assert later.message == "rank 9 (local_rank: 1), exitcode 1 (pid: 4202)"
    assert first.message == "rank 11, exitcode -9, traceback Signal 9 (SIGKILL) received by PID 4204"
    assert lines[-17:] == list(range(5, 22))


def test_the_last_process_of_a_summary_without_its_header_is_the_first_that_failed() -> None:
    (only,) = read(ON_NODE_3[ON_NODE_3.index("Failures:\n") :].partition("---")[0] + "=" * 60 + "\n")[0]
    assert (only.line, only.kind.name) == (2, "first_failed")


def test_a_summary_that_is_torn_before_its_exit_code_names_the_first_process() -> None:
    torn = ON_NODE_3.rpartition("  exitcode")[0]
    assert [(each.line, each.kind.name) for each in read(torn)[0]][-1] == (14, "first_failed")
    assert [each.kind.name for each in read(torn.rpartition("  rank")[0])[0]][-1] == "later_failed"


STALL = (
    "[0] [2023-06-26 07:23:58.4: W stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered"
    " or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds."
)


def test_the_ranks_that_lack_all_that_horovod_lists_are_absent() -> None:
    listed = "[0] Missing ranks:\n[0] 1: [grad.a, grad.b ...]\n[0] 2: [grad.a]\n[0] 4: [grad.b, grad.a]\nstep\n"
    (failure,) = read(f"{STALL}\n{listed}")[0]
    assert (failure.last_line, failure.values["absent"]) == (5, "1, 4")
    assert failure.message.endswith("\nMissing ranks: 1, 4")
    assert failure.message.count("Missing ranks") == 1
    (failure,) = read(f"{STALL}\nstep\n{listed}")[0]
    assert (failure.last_line, "absent" in failure.values) == (1, False)
    (failure,) = read(f"{STALL}\n[0] Missing ranks:\n[0] 1: [a]\n[0] 2: [b]\n")[0]
    assert "absent" not in failure.values


# --- repetitions ------------------------------------------------------------------------------------------------------


def test_a_message_that_a_process_repeats_is_counted() -> None:
    lines = [f"[rank{rank}]: ValueError: bad record {k}\n" for k in (1, 2) for rank in (0, 1)]
    assert spans("".join(lines)) == [(1, 3, "exception", 2), (2, 4, "exception", 2)]


@pytest.mark.parametrize(
    ("second", "count"),
    [("ValueError: bad record 7", 2), ("ValueError: no record", 1), (MEMORY, 1)],
)
def test_what_a_repetition_is(second: str, count: int) -> None:
    failures = read(f"ValueError: bad record 3\n{second}\n")[0]
    assert ([each.count for each in failures], failures[-1].last_line) == ([2] if count == 2 else [1, 1], 2)


def test_a_message_is_not_repeated_in_another_run_or_log() -> None:
    text = "ValueError: bad\nstep\nValueError: bad\n"
    assert [each.count for each in read(text)[0]] == [2]
    assert [each.count for each in read(text, runs=[2])[0]] == [1, 1]
    assert [each.count for each in read(text, runs=[3])[0]] == [1, 1]
    assert [each.count for each in read(text, runs=[2], cut=2)[0]] == [1, 1]  # the run begins in an earlier batch
    assert [each.count for each in read(text, logs=[1, 3])[0]] == [1, 1]


def test_a_message_does_not_go_on_in_the_next_log() -> None:
    assert spans(f"{TRACE}ValueError: bad\n", logs=[1, 4]) == [(1, 1, "exception", 1), (4, 4, "exception", 1)]


def test_a_notice_is_counted_whatever_is_between() -> None:
    notice = "[rank1]: W torch._dynamo hit config.recompile_limit (8)\n"
    found = read(f"{notice}ValueError: bad\n{notice}")[0]
    assert [(each.kind.name, each.line, each.last_line, each.count) for each in found] == [
        ("recompile_limit", 1, 3, 2), ("exception", 2, 2, 1)
    ]  # fmt: skip


def test_ray_reports_how_many_processes_printed_a_message() -> None:
    text = labelled(f"{TRACE}ValueError: bad [repeated 3x across cluster]\n", "(Trainer pid=4) ")
    (failure,) = read(text)[0]
    assert (failure.message, failure.count, failure.origin.process) == ("ValueError: bad", 3, None)


def test_of_very_many_failures_of_a_kind_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_list, "_MOST", 2)
    text = "ValueError: a\nKeyError: b\nIndexError: c\nTypeError: d\n"
    # after them, whatever the process prints of the kind counts as a repetition of its last one
    assert spans(text) == [(1, 1, "exception", 1), (2, 4, "exception", 3)]
    text = f"[rank1]: ValueError: a\n[rank2]: KeyError: b\n[rank3]: ValueError: a\n[rank4]: {MEMORY}\n"
    assert [line for line, *_ in spans(text)] == [1, 2, 4]  # one of another kind may be the cause


# --- a server, a launcher, a new start --------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "count"), [(400, 0), (404, 0), (500, 1), (200, 1)])
def test_a_request_that_a_server_refuses_is_no_failure(status: int, count: int) -> None:
    answer = f'INFO:     127.0.0.1:5 - "POST /v1 HTTP/1.1" {status} Bad Request\n'
    text = f"{TRACE}ValueError: bad\n{answer}"
    assert [len(read(text, cut)[0]) for cut in (0, 3, 4)] == [count] * 3
    assert len(read(f"{TRACE}ValueError: bad\nstep\n{answer}")[0]) == 1
    assert len(read(f"{TRACE}{MEMORY}\n{answer}")[0]) == 1


@pytest.mark.parametrize(
    ("line", "has_launcher"),
    [
        ("+ torchrun train.py", True),
        ("accelerate launch a.py", True),
        ("W1003 09:00:00.123000 4711 torch/distributed/run.py:766] *************", True),
        ("INFO:torch.distributed.launcher.api:Starting elastic_operator with launch configs:", True),
        ("+ python a.py", False),
    ],
)
def test_whether_a_launcher_starts_the_processes(line: str, has_launcher: bool) -> None:
    assert read(f"{line}\n")[2].has_launcher is has_launcher


OPENING = "benchmark of kernels begins\n"


@pytest.mark.parametrize(
    ("between", "sections"),
    [
        ("step\n", [0, 1, 2]),  # three lines in each start
        ("", [0, 0, 0]),  # a line that is printed again so soon is not the first of a program
    ],
)
def test_a_failure_is_in_the_section_of_the_first_line_of_the_log(between: str, sections: list[int]) -> None:
    names = ("ValueError: a", "KeyError: b", "IndexError: c")
    text = "".join(f"{OPENING}{between}{name}\n" for name in names)
    assert [each.section for each in read(text)[0]] == sections
    assert read(text, 3)[0] == read(text)[0]


def test_a_first_line_with_other_digits_counts_only_after_failures() -> None:
    def sections(*gaps: int) -> list[int]:
        starts = (f"2024-05-01 12:0{k}:00 begins\nstep\nstep\nValueError: {'ab'[k]}\n" for k in range(2))
        return [each.section for each in read(("step\n" * gaps[0]).join(starts))[0]]

    assert sections(0) == [0, 1]
    assert sections(3) == [0, 1]
    assert sections(4) == [0, 0]


def test_a_short_first_line_is_no_start_of_a_program() -> None:
    def sections(opening: str) -> list[int]:
        return [
            each.section for each in read("".join(f"{opening}\nx\nx\n{e}: y\n" for e in ("ValueError", "KeyError")))[0]
        ]

    assert sections("ten chars.") == [0, 1]
    assert sections("nine char") == [0, 0]


def test_interleaved_messages_of_labelled_ranks_go_on_to_their_last_line() -> None:
    ranks = range(3)
    lines = [f"[rank{rank}]: {line}" for line in f"{TRACE}{NCCL}".splitlines() for rank in ranks]
    failures, _, _ = read("\n".join(lines) + "\n")
    assert [failure.message for failure in failures] == [NCCL] * 3


# --- the functions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "text", "rest"),
    [
        ("", "x", "x"), ("  ", "  x", "x"), ("  ", "x", "x"), ("  ", "   x", " x"),
        ("10:00:01 INFO ", "10:00:12 INFO x", "x"), ("10:00:01 INFO ", "10:00:12 WARN x", "10:00:12 WARN x"),
        ("a ", "b x", "b x"),
    ],
)  # fmt: skip
def test_a_line_of_a_traceback_without_its_prefix(before: str, text: str, rest: str) -> None:
    """Numbers in it may be others."""
    assert module._without(before, text) == rest


@pytest.mark.parametrize(
    ("name", "may_be"),
    [("RuntimeError", True), ("mylib.errors.Empty", True), ("mylib.lower", True), ("error", True), ("warning", False)],
)
def test_names_of_exceptions(name: str, may_be: bool) -> None:
    assert module._is_exception(name) == may_be


@pytest.mark.parametrize("telling", ["generic", "guessed", "warns", None])
def test_lines_that_may_report_a_failure(telling: str | None) -> None:
    """Of a format for any program, of one that perflog made, and warnings."""
    form = SimpleNamespace(generic=telling == "generic", guessed=telling == "guessed")
    line: Any = form, SimpleNamespace(warns=telling == "warns")
    assert module._may_tell(line) == (telling is not None)


@pytest.mark.parametrize(
    ("stamp", "clock"),
    [("2026-01-01T10:00:05Z", "utc"), ("2026-01-01 10:00:05", "local"), ("[  12.500000]", None), ("no time", None)],
)
def test_the_clock_of_a_failure(stamp: str, clock: str | None) -> None:
    (failure,), _, _ = read(f"{stamp} RuntimeError: CUDA error: device-side assert triggered\n")
    assert failure.clock == clock and (failure.time is None) == (clock is None)


def test_a_wrapped_message_is_no_end_of_reading() -> None:
    message = (
        "[rank6]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 6] "
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
        "collectives. This typically indicates a NCCL/CUDA API hang blocking the watchdog"
    )
    lines = [message[k : k + 116] for k in range(0, len(message), 116)]
    text = "".join(f"{line}\n" for line in [*lines, "step 1", "ValueError: bad"])
    assert spans(text) == [(1, 3, "stuck_watchdog", 1), (5, 5, "exception", 1)]


def test_an_exception_after_its_traceback_has_values() -> None:
    lost = "RuntimeError: [/gloo/pair.cc:5] Connection closed by peer [10.0.0.3]:1024\n"
    assert [read(text)[0][0].values for text in (lost, TRACE + lost)] == [{"peer_address": "10.0.0.3"}] * 2


def test_a_program_tells_in_the_next_line_why_it_aborts() -> None:
    thrown = "terminate called after throwing an instance of 'c10::Error'\n"
    (failure,) = read(f"{thrown}  what():  bad\n")[0]
    assert (failure.last_line, failure.message) == (2, f"{thrown}what():  bad")
    assert spans(f"{thrown}  bad\n") == [(1, 1, "abort", 1)]
    known = f"{thrown}  what():  CUDA error: out of memory\n"  # a failure of its own
    assert spans(known) == [(1, 1, "abort", 1), (2, 2, "gpu_out_of_memory", 1)]


def test_a_line_of_a_logger_in_a_traceback_is_none_of_it() -> None:
    assert read(f"{TRACE}ERROR: saving\nValueError: bad\n")[1] == [1, 2, 3, 5]


def test_an_item_of_a_list_may_be_an_exception() -> None:
    assert spans("- ValueError: bad\n") == [(1, 1, "exception", 1)]


def test_the_next_line_adds_where_a_failure_was() -> None:
    lost = f"{TRACE}ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    node = "Memory on the node (IP: 10.0.0.7, ID: ab12) where the task (pid=43) was running was 1.5GB / 1.6GB (0.95)\n"
    (failure,), lines, _ = read(lost + node)
    assert (failure.last_line, lines) == (5, [1, 2, 3, 4, 5])
    assert failure.values == {"node": "10.0.0.7", "pid": "43"} and failure.message.endswith(node.strip())
    assert read(f"{lost}step\n{node}")[0][0].values == {}
