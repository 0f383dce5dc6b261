"""What further lines of its message add to a failure."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.parsing.failures import failure as module
from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import kinds
from perflog.parsing.failures.origins import Origin
from perflog.tables.row_order import PART_BITS

MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def failed(kind: str = "exception", message: str = "it failed", line: int = 5, **more: Any) -> Failure:
    usual: dict[str, Any] = {"values": {}, "origin": Origin(), "stream": ""}
    return Failure(line << PART_BITS, line, kinds()[kind], message, **(usual | more))


@pytest.mark.parametrize(
    ("first", "later", "how", "replaced"),
    [
        ("exception", "exception", module.DIRECT, False),  # the cause
        ("exception", "exception", module.HANDLING, True),  # what it led to
        ("exception", "gpu_out_of_memory", module.DIRECT, True),  # what says more
        ("gpu_out_of_memory", "exception", module.HANDLING, False),
        ("gpu_out_of_memory", "gpu_out_of_memory", module.DIRECT, False),
        ("gpu_out_of_memory", "gpu_out_of_memory", module.ORIGINAL, True),  # where a worker raised it
        ("exception", "exception", module.PART_OF_GROUP, True),
        ("gpu_out_of_memory", "exception", module.ORIGINAL, False),
    ],
)
def test_an_exception_and_the_one_that_it_led_to_are_one(first: str, later: str, how: str, replaced: bool) -> None:
    one, other = failed(first, "first", 5, values={"a": "1"}), failed(later, "later", 9, values={"b": "2"})
    module.merge(one, other, how)
    assert (one.message, one.values) == (("later", {"b": "2"}) if replaced else ("first", {"a": "1"}))
    assert (one.kind.name, one.line, one.last_line) == (later if replaced else first, 5, 9)


def test_the_exception_of_a_task_replaces_its_wrapper() -> None:
    wrapper = failed(values={"old": "1"})
    killed = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed."
    module.unwrap(wrapper, f"{killed}{' ' * 2000}", 9)
    assert (wrapper.kind.name, wrapper.values) == ("host_out_of_memory", {"pid": "77"})
    assert (wrapper.last_line, len(wrapper.message)) == (9, 1000)
    module.unwrap(wrapper, "nothing known", 11)
    assert (wrapper.kind.name, wrapper.values, wrapper.message) == ("exception", {}, "nothing known")


def test_lines_of_the_summary_of_torchrun() -> None:
    entry = failed("child_failed", "")
    lines = [
        ("time", "2026-01-01"), ("host", "node3"), ("rank", "5 (local_rank: 1)"), ("exitcode", "-9 (pid: 77)"),
        ("traceback", "Signal 9 (SIGKILL) received by PID 77"),
    ]  # fmt: skip
    for line, (key, value) in enumerate(lines, 6):
        module.add_entry(entry, key, value, line)
    assert (entry.origin.node, entry.origin.rank, entry.origin.rank_by, entry.origin.local_rank) == (
        "node3", 5, "printed", 1
    )  # fmt: skip
    assert (entry.values, entry.last_line) == ({"exit_code": "-9", "pid": "77"}, 10)
    assert entry.message == (
        "rank 5 (local_rank: 1), exitcode -9 (pid: 77), traceback Signal 9 (SIGKILL) received by PID 77"
    )
    for key, value in (("rank", "7"), ("exitcode", "1"), ("host", ""), ("traceback", "To enable traceback see: x")):
        module.add_entry(entry, key, value, 11)
    assert (entry.origin.rank, entry.origin.local_rank, entry.origin.node) == (7, None, None)
    assert entry.values == {"exit_code": "1", "pid": "77"} and "To enable" not in entry.message


def test_a_message_of_many_processes_of_ray_is_counted() -> None:
    """Its label names one of them."""
    many = failed(message="it failed [repeated 7x across cluster]", origin=Origin(rank=3))
    module.count_repeated(many)
    assert (many.message, many.count, many.origin) == ("it failed", 7, Origin())
    once = failed(message="it failed [repeated 7x across cluster] twice", origin=Origin(rank=3))
    module.count_repeated(once)
    assert (once.count, once.origin.rank) == (1, 3)


def test_the_node_of_an_actor_and_why_it_is_dead() -> None:
    reason = "The actor is dead because its node has died."
    actor = failed("exception", "ray.exceptions.ActorDiedError")
    assert module.add_about_actor(actor, "    ip: 10.0.0.7", 9)
    assert (actor.origin.node, actor.last_line) == ("10.0.0.7", 9)
    assert not module.add_about_actor(actor, reason, 11)  # not the next line
    assert not module.add_about_actor(actor, MEMORY, 10)  # another kind
    assert actor.message == "ray.exceptions.ActorDiedError\nip: 10.0.0.7"


def test_the_rank_of_an_actor_is_in_the_rest_of_its_bracket() -> None:
    actor = failed("actor_died", "ray.exceptions.ActorDiedError: ray::W.__init__() (pid=7, actor_id=", line=8)
    assert not module.add_about_actor(actor, "79f3, repr=Worker[rank=2])", 10)  # not the next line
    assert module.add_about_actor(actor, "79f3, repr=Worker[rank=2])", 9)
    assert (actor.origin.rank, actor.last_line) == (2, 9)
    assert not module.add_about_actor(actor, "repr=Worker[rank=3])", 10)  # the bracket is closed
