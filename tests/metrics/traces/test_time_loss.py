"""What the time of a device was spent on: each nanosecond of traces written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from support.trace_tables import Event, by_hand, kernel, reduce, step

from perflog.metrics.traces.collectives.time_loss import DeviceLosses, device_losses

EPOCH = 1_712_195_495_505_582_988


def spent(losses: DeviceLosses) -> dict[str, int]:
    """The times that are not 0."""
    return {name: time for name, time in losses.times.items() if time}


def job(**more: Any) -> Iterator[Event]:
    """Ten rounds of 1000 ns: 300 ns of computing on rank 0, 500 on rank 1, then an all-reduce of 300 ns.

    On rank 0 a copy of 80 ns begins when the all-reduce has transferred 270 ns, and computing overlaps 40 ns of its
    waiting.
    """
    for at in range(EPOCH, EPOCH + 10_000, 1000):
        zero: Mapping[str, Any] = {"rank": 0, "part": 0, "device": 0}
        one: Mapping[str, Any] = {"rank": 1, "part": 1, "device": 1}
        yield kernel(at, at + 300, **zero)
        yield reduce(at + 300, at + 800, stream=8, **zero, **more)
        yield kernel(at + 320, at + 360, **zero)
        yield kernel(at + 770, at + 850, "Memcpy DtoH", kind="memcpy", stream=9, **zero)
        yield kernel(at, at + 500, **one)
        yield reduce(at + 500, at + 800, stream=8, **one, **more)


def test_the_communication_of_two_ranks_is_waiting_and_transfer() -> None:
    zero, one = device_losses(by_hand(list(job())))
    assert (zero.device.rank, one.device.rank, zero.steps) == (0, 1, 0)
    assert spent(zero) == {
        "compute": 3400, "transfer": 3000, "waiting for the last": 1600, "copies": 500, "idle": 9 * 150
    }  # fmt: skip
    assert spent(one) == {"compute": 5000, "transfer": 3000, "idle": 9 * 200}
    for losses in (zero, one):
        assert sum(losses.times.values()) == losses.device.span
        assert losses.doubts == {"communication": ()}


def test_alone_waiting_is_not_known() -> None:
    events = [event for event in job() if event["rank"] == 0]
    (losses,) = device_losses(by_hand(events))
    assert spent(losses) == {"compute": 3400, "communication": 4600, "copies": 500, "idle": 9 * 150}
    assert losses.doubts == {"communication": ("waiting is not known: there is no trace of another rank",)}


def test_ranks_without_a_trace_may_be_later() -> None:
    """The group has four ranks; two are traced."""
    found = device_losses(by_hand(list(job(group="dp", ranks=4))))
    assert [losses.doubts for losses in found] == [
        {"communication": (), "waiting for the last": ("ranks without a trace may have arrived later",)}
    ] * 2
    assert spent(found[0])["waiting for the last"] == 1600


def test_collectives_of_one_rank_are_communication() -> None:
    """Rank 0 alone has a second group; what it does there is divided into nothing, and the reason is kept once."""
    only = [kernel(EPOCH + at, EPOCH + at + 30, "ncclDevKernel_AllGather", rank=0, part=0, device=0, group="tp")
            for at in (900, 1900)]  # fmt: skip
    zero, one = device_losses(by_hand([*job(group="dp"), *only]))
    assert spent(zero) == {
        "compute": 3400, "transfer": 3000, "waiting for the last": 1600, "communication": 60, "copies": 500,
        "idle": 9 * 150 - 60,
    }  # fmt: skip
    assert zero.doubts == one.doubts == {"communication": ("waiting is not known: only rank 0 has it",)}


def test_idle_time_by_cause_in_steps() -> None:
    """Kernels of 10 ns every 100 ns in two steps, each launched 2 ns before it runs: the gaps are the host's.

    In the second step the host loads data for 30 ns; a kernel waits 5 ns. Work and time outside of the steps is left
    out.
    """
    events: list[Event] = [step(1, 0, 200), step(2, 200, 400)]
    for number, start in enumerate(range(0, 600, 100), 1):
        host = {"device": None, "stream": None, "correlation": number, "process": "9", "thread": "1"}
        events.append(kernel(start - 2, start - 1, "cudaLaunchKernel", kind="runtime", **host))
        events.append(kernel(start, start + 10, correlation=number))
    host = {"device": None, "stream": None, "process": "9", "thread": "1"}
    events.append(kernel(230, 260, "get_batch", kind="range", **host))
    events.append(kernel(310, 315, "event_wait", stream=8))
    (losses,) = device_losses(by_hand(events))
    times = spent(losses)
    assert losses.steps == 2 and sum(times.values()) == sum(
        end - start for start, end in zip(losses.device.steps.starts, losses.device.steps.ends, strict=True)
    )
    assert times["compute"] == 40 and times["data"] == 30 and times["waiting kernels"] == 5
    assert set(times) == {"compute", "data", "waiting kernels", "host-bound idle", "idle with work queued"}
    assert times["idle with work queued"] in (6, 8)  # up to 2 ns for each launch inside
