"""What the trainer does on a GPU, held against fakes: no test machine has one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)

import torch
import torch.distributed as dist

from perflog.errors import UsageError
from perflog.trainer import moe, rank_context
from perflog.trainer.expert_strategies import feed_forward
from perflog.trainer.phase_clock import PhaseClock

GPU = torch.device("cuda", 1)


class FakeEvent:
    """An event that is recorded at the next tick of 2 ms; it can be read only when the device has been waited for."""

    ticks = 0
    waited = False

    def __init__(self, enable_timing: bool = False) -> None:
        self.timing, self.at = enable_timing, -1

    def record(self) -> None:
        self.at = FakeEvent.ticks
        FakeEvent.ticks += 1
        FakeEvent.waited = False

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self.timing
        assert end.timing
        assert FakeEvent.waited
        return 2.0 * (end.at - self.at)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PhaseClock:
    monkeypatch.setattr(torch, "ones", lambda *_, **__: None)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: setattr(FakeEvent, "waited", True))
    return PhaseClock(GPU)


def test_phases_on_a_gpu_lie_between_events_that_are_read_at_the_end(clock: PhaseClock) -> None:
    with clock("step"):
        for _ in range(2):
            with clock("part"):
                pass
        assert not FakeEvent.waited  # nothing stops the host inside a step
    assert clock.read() == pytest.approx({"part": 0.004, "step": 0.010})
    assert clock.read() == {}


def test_a_step_takes_the_events_of_the_step_before(clock: PhaseClock, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeEvent] = []

    def event(enable_timing: bool = False) -> FakeEvent:
        made.append(FakeEvent(enable_timing))
        return made[-1]

    monkeypatch.setattr(torch.cuda, "Event", event)
    for _ in range(3):
        with clock("step"), clock("part"):
            pass
        assert clock.read() == pytest.approx({"part": 0.002, "step": 0.006})
        assert len(made) == 4


def ranks(monkeypatch: pytest.MonkeyPatch, gpus: int, local: int = 0, count: int = 1) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("LOCAL_RANK", str(local))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(count))


def test_each_rank_takes_the_gpu_of_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks(monkeypatch, 2, local=1, count=2)
    assert rank_context.choose_device(None) == rank_context.choose_device("cuda") == GPU
    assert rank_context.choose_device("cpu") == torch.device("cpu")
    ranks(monkeypatch, 0)
    assert rank_context.choose_device(None) == torch.device("cpu")


def test_too_few_gpus_are_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks(monkeypatch, 2, local=3, count=4)
    with pytest.raises(UsageError, match="4 ranks on this node, but 2 GPUs") as error:
        rank_context.choose_device(None)
    assert error.value.help == "start 2, or take --device cpu"


@pytest.mark.parametrize(("device", "backend"), [(GPU, "nccl"), (torch.device("cpu"), "gloo")], ids=str)
def test_the_process_group_is_bound_to_the_gpu(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, backend: str
) -> None:
    """The GPU is set before the group is made, which gets it too: all it does is on that device."""
    done: list[Any] = []
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(torch.cuda, "set_device", lambda d: done.append(("set", d)))
    monkeypatch.setattr(dist, "init_process_group", lambda *a, **k: done.append((*a, k)))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: done.append("left"))
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    with rank_context.join_process_group(device) as found:
        assert (found.rank, found.world_size, found.device) == (1, 2, device)
    bound = {"device_id": GPU} if backend == "nccl" else {}
    minutes = timedelta(minutes=3 if backend == "nccl" else 30)
    assert done == [*([("set", GPU)] if bound else []), (backend, {"timeout": minutes, **bound}), "left"]


class Rows(SimpleNamespace):
    """A matrix on a GPU, as far as the choice of a kernel looks at it."""

    is_cuda, device, dtype = True, GPU, torch.bfloat16

    def __len__(self) -> int:
        return int(self.shape[0])


@pytest.mark.parametrize(
    ("capability", "dtype", "width", "rows", "hip", "one"),
    [
        ((9, 0), torch.bfloat16, 64, 5, None, True),
        ((10, 3), torch.bfloat16, 64, 5, None, True),
        ((8, 0), torch.bfloat16, 64, 5, None, False),  # there it is a loop that stops the host
        ((12, 0), torch.bfloat16, 64, 5, None, False),
        ((9, 4), torch.bfloat16, 64, 5, "6.4", False),  # an MI300 names itself so
        ((9, 0), torch.float16, 64, 5, None, False),
        ((9, 0), torch.bfloat16, 60, 5, None, False),  # rows of 120 bytes
        ((9, 0), torch.bfloat16, 64, 0, None, False),
    ],
)
def test_the_grouped_kernel_is_taken_where_it_is_one(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    dtype: torch.dtype,
    width: int,
    rows: int,
    hip: str | None,
    one: bool,
) -> None:
    monkeypatch.setattr(moe, "_KERNEL", object())
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    given: Any = Rows(shape=(rows, width), dtype=dtype), SimpleNamespace(shape=(4, width, 64))
    assert moe.has_grouped_kernel(*given) is one
    monkeypatch.setattr(moe, "_KERNEL", None)  # PyTorch before 2.10
    assert not moe.has_grouped_kernel(*given)


class HostTensor:
    """A tensor of the host that notes how it is copied to a GPU."""

    def __init__(self, pinned: bool = False) -> None:
        self.pinned = pinned

    def pin_memory(self) -> HostTensor:
        return HostTensor(pinned=True)

    def to(self, device: torch.device, non_blocking: bool = False) -> tuple[str, bool]:
        return str(device), self.pinned and non_blocking


def test_a_copy_to_the_gpu_stops_nobody() -> None:
    """Of memory that is not pinned, or with a wait, the host would stand still until the GPU has done all before it."""
    tensor: Any = HostTensor()
    assert moe.to_device(tensor, torch.device("cuda:1")) == ("cuda:1", True)
    assert moe.to_device(torch.tensor([1, 2]), torch.device("cpu")).tolist() == [1, 2]


def test_nothing_is_made_on_the_device_while_products_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.tensor` on a GPU waits for it. Products get what they need of the counts before their timers start."""
    made_in: list[str | None] = []
    original = torch.tensor
    phases: list[str] = []

    def tensor(*args: Any, **options: Any) -> Any:
        made_in.append(phases[-1] if phases else None)
        return original(*args, **options)

    class NotingClock(PhaseClock):
        @contextmanager
        def __call__(self, phase: str) -> Iterator[None]:
            phases.append(phase)
            yield
            phases.pop()

    monkeypatch.setattr(torch, "tensor", tensor)
    rows, w1, w2 = torch.randn(6, 4), torch.randn(2, 4, 8), torch.randn(2, 8, 4)
    out = feed_forward(rows, w1, w2, [2, 4], NotingClock(torch.device("cpu")))
    assert out.shape == (6, 4)
    assert made_in == [None]
