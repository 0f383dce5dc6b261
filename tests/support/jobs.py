"""Logs of jobs in the shape of Megatron-LM, with planted events: what each second of the wall time was is known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Job(msgspec.Struct):
    """Writes the log of a job, and sums up what its seconds were."""

    now: datetime = START
    lines: list[str] = msgspec.field(default_factory=list)
    seconds: dict[str, float] = msgspec.field(default_factory=dict)
    settings: str = "data-parallel size: 8"
    stamps: bool = True
    last_clock: float = 0.0

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def spend(self, kind: str, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds

    def start(self, seconds: int, load: int | None = None) -> None:
        self.lines.append(f"[{self.now:%Y-%m-%d %H:%M:%S}] using world size: 8, {self.settings}, tensor size: 1")
        self.spend("startup", seconds)
        if load is not None:
            self.lines.append(f" loading checkpoint from /ckpt at iteration {load}")
            self.lines.append(f"  successfully loaded checkpoint from /ckpt at iteration {load}")
        self.lines.append(f"[before the start of training step] datetime: {self.now:%Y-%m-%d %H:%M:%S} ")

    def steps(self, first: int, last: int, times: Iterator[float] | float, kind: str = "training") -> None:
        for step in range(first, last + 1):
            time = times if isinstance(times, float) else next(times)
            self.spend(kind, time)
            stamp = f" [{self.now:%Y-%m-%d %H:%M:%S.%f}]" if self.stamps else ""
            self.lines.append(
                f"{stamp} iteration {step:8d}/    1000 | consumed samples: {128 * step:12d} | elapsed time per "
                f"iteration (ms): {1e3 * time:.1f} | global batch size:   128 | lm loss: {8 / step**0.1:.6E} |"
            )

    def save(self, step: int, seconds: float) -> None:
        self.lines.append(f"saving checkpoint at iteration {step:7d} to /ckpt")
        self.spend("checkpoint", seconds)
        self.lines.append(f"  successfully saved checkpoint from iteration {step:7d} to /ckpt")

    def hang(self, seconds: float) -> None:
        """No step ends any more, until the watchdogs of all ranks but one end the job."""
        self.spend("stall", seconds)
        seq = len(self.lines)
        for rank in range(3):
            self.lines.append(
                f"[rank{rank}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
                f"NumelIn=1, NumelOut=1, Timeout(ms)=1000) ran for {1e3 * seconds - rank:.0f} milliseconds before "
                "timing out."
            )


def restarted() -> Job:
    """A job that hangs after step 60, is down, and goes on from its checkpoint of step 40."""
    job = Job()
    job.start(100)
    job.steps(1, 40, 2.0)
    job.save(40, 30.0)
    job.steps(41, 60, 2.0, "repeated")
    job.hang(300)
    job.spend("down", 200)
    job.start(120, 40)
    job.steps(41, 80, 2.0)
    return job
