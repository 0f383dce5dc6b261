"""What the trainer does on a GPU, held against fakes: no test machine has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from perflog.errors import UsageError
from perflog.trainer import kernels, rank_context
from perflog.trainer.models import moe
from perflog.trainer.models.expert_strategies import feed_forward
from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.printers.original_printers import SweepPrinter
from perflog.trainer.printers.reference_printer import ReferencePrinter, RunPrinter
from perflog.trainer.recipes import load_recipe
from perflog.trainer.training import StepMeasurement, Trainer

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


def test_a_transfer_beside_the_computation_has_a_stream_that_each_waits_for(
    clock: PhaseClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transfer begins after what was computed before it, and what is computed after the wait begins at its end."""
    done: list[Any] = []

    class Stream:
        def wait_stream(self, other: Stream) -> None:
            done.append((self, "after", other))

        def wait_event(self, event: FakeEvent) -> None:
            done.append((self, "after event", event.at))

    main = Stream()
    current = [main]

    @contextmanager
    def inside(stream: Stream) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", inside)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[-1])
    FakeEvent.ticks = 0
    for _ in range(2):
        wait = clock.start(lambda asynchronous: done.append((current[-1], asynchronous)), "rows_transfer")
        wait()
    side = done[0][0]
    transfer = [(side, "after", main), (side, False)]
    assert done == [*transfer, (main, "after event", 1), *transfer, (main, "after event", 3)]
    assert side is not main
    assert clock.read() == pytest.approx({"rows_transfer": 0.004})


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

    device = torch.device("cpu")

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


# --- what stops the host ------------------------------------------------------------------------------------------

_STOPS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount", "repeat_interleave", "item"}
"""Operations for which the host waits for a GPU, since their result or its shape depends on values there."""


class Stops(TorchDispatchMode):  # type: ignore[misc]  # the types of torch are not read
    """Counts what would stop the host on a GPU, by the innermost phase in which it does."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, phases: list[str], on_host: Sequence[torch.Tensor] = ()
    ) -> None:
        super().__init__()
        self.counts: Counter[tuple[str | None, str]] = Counter()
        self.phases = phases
        self.on_host = {tensor.data_ptr() for tensor in on_host}  # with a GPU too

        def cpu(tensor: torch.Tensor) -> torch.Tensor:
            self._note("cpu")
            return tensor

        monkeypatch.setattr(torch.Tensor, "cpu", cpu)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_flags = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if (name in _STOPS or by_flags) and args[0].data_ptr() not in self.on_host:
            self._note(name)
        return func(*args, **(kwargs or {}))

    def _note(self, what: str) -> None:
        self.counts[self.phases[-1] if self.phases else None, what] += 1


class NamingClock(PhaseClock):
    """A clock that tells in which phase the program is."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.phases: list[str] = []

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        self.phases.append(phase)
        with super().time(phase):
            yield
        self.phases.pop()


@pytest.mark.parametrize(
    ("strategy", "stops"),
    [("dense", ()), ("padded", ()), ("dropless", [("exchange", "cpu"), ("sort", "repeat_interleave")])],
)
def test_a_step_stops_the_host_only_for_its_counts(
    monkeypatch: pytest.MonkeyPatch, strategy: str, stops: Sequence[tuple[str, str]]
) -> None:
    """Once for each layer of experts of `dropless`, which sorts by the counts on the host then.

    At the end of the step the losses are read, outside of all phases.
    """
    monkeypatch.delenv("RANK", raising=False)
    specs = load_recipe("sweep").specs(steps=1, seed=0, dtype="float32", scale=0.1)
    spec = next(spec for spec in specs if spec.strategy in (strategy, "dense"))
    sizes = replace(spec.sizes, layers=2, experts_per_rank=0 if strategy == "dense" else 4, top_k=2)
    spec = replace(spec, strategy=strategy, sizes=sizes)
    with rank_context.join_process_group(torch.device("cpu")) as here:
        clock = NamingClock(here.device)
        trainer = Trainer(spec, here, clock)
        trainer.step(0)  # the optimizer makes its state
        assert isinstance(trainer.optimizer, torch.optim.AdamW)
        counters = [state["step"] for state in trainer.optimizer.state.values()]
        with Stops(monkeypatch, clock.phases, counters) as found:
            trainer.step(1)
    layers = len(trainer.model.moe_layers)
    assert strategy == "dense" or layers > 0
    in_phases = {where: number for where, number in found.counts.items() if where[0] is not None}
    assert in_phases == dict.fromkeys(stops, layers)
    assert found.counts[None, "_local_scalar_dense"] == (3 if layers else 1)  # of one copy to the host


def test_what_stops_the_host_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.arange(4)
    with Stops(monkeypatch, []) as found:
        int(values[1])
        values[values > 2]
        values.cpu()
        values.bincount()
    assert sorted(what for _, what in found.counts) == ["_local_scalar_dense", "bincount", "cpu", "index"]


# --- what ranks wait for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backend", "world", "made"), [("nccl", 2, 1), ("nccl", 1, 0), ("gloo", 2, 0)])
def test_ranks_wait_long_only_in_a_group_without_the_limit_of_nccl(
    monkeypatch: pytest.MonkeyPatch, backend: str, world: int, made: int
) -> None:
    groups: list[dict[str, Any]] = []
    monkeypatch.setattr(dist, "get_world_size", lambda: world)
    monkeypatch.setattr(dist, "get_backend", lambda: backend)

    def new_group(**options: Any) -> str:
        groups.append(options)
        return "patient"

    monkeypatch.setattr(dist, "new_group", new_group)
    assert rank_context.patient_group() == ("patient" if made else None)
    assert groups == [{"backend": "gloo", "timeout": timedelta(minutes=30)}] * made


@pytest.mark.parametrize("rank", [0, 1])
def test_other_ranks_wait_for_the_profile_before_any_collective(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    """A profile of many events takes rank 0 longer than the time limit of a collective."""
    done: list[object] = []

    class Fake:
        model = SimpleNamespace(blocks=())

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __getattr__(self, name: str) -> Any:
            return lambda *_: done.append(name)

    monkeypatch.setattr(kernels, "Trainer", lambda *_: SimpleNamespace(model=Fake.model, step=lambda n: n))
    monkeypatch.setattr(kernels, "ReferencePrinter", Fake)
    monkeypatch.setattr(kernels, "profile", Fake)
    monkeypatch.setattr(kernels, "patient_group", lambda: "patient")
    monkeypatch.setattr(kernels, "print_kernel_table", lambda *_: done.append("table"))
    monkeypatch.setattr(kernels, "write_trace", lambda *_: done.append("trace"))
    monkeypatch.setattr(dist, "barrier", lambda group=None: done.append(group))
    spec: Any = SimpleNamespace(warmup_steps=1, steps=2)
    here: Any = SimpleNamespace(rank=rank, device=torch.device("cpu"))
    log: Any = None
    kernels.run([spec], here, log, Path("trace.json"))
    alone = ["table", "trace"] if rank == 0 else []
    assert done[-len(alone) - 2 :] == [*alone, "patient", "end"]


def test_the_step_after_a_printed_one_begins_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printers end with a barrier: what one rank prints is no wait in the next step of the others."""
    done: list[str] = []

    def write(*_: Any, **__: Any) -> dict[str, Any]:
        done.append("line")
        return {}

    log: Any = SimpleNamespace(write=write, write_phases=lambda *_: None)
    monkeypatch.setattr(dist, "barrier", lambda: done.append("barrier"))
    sizes = SimpleNamespace(tokens=8)
    spec = SimpleNamespace(sizes=sizes, warmup_steps=0, plain=False)
    here = SimpleNamespace(rank=0, world_size=2)
    trainer: Any = SimpleNamespace(spec=spec, context=here)
    printers: tuple[Callable[..., RunPrinter], ...] = (ReferencePrinter, SweepPrinter)
    seconds = dict.fromkeys(("elapsed", "forward", "backward", "optimizer"), 1.0)
    measured = StepMeasurement(0, seconds, 2.0, (), 1.0, 1)
    for printer in printers:
        done.clear()
        printer(log, trainer).step(measured)
        assert done[-2:] == ["line", "barrier"]
