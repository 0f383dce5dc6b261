"""The five logs, read with nothing but regular expressions. Times are in seconds, as printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import mean, median

from support.raw_steps import warm_up
from support.seeds import KINDS, hits, lines

MS = 1e-3
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


# --- the MoE layer, and the sweep ---------------------------------------------------------------------------------

Numbers = tuple[float, ...]


@dataclass
class RawStep:
    """Lines of one step by kind (`support.seeds.KINDS`), in their order; its step, forward and backward time."""

    lines: dict[str, list[Numbers]]
    time: float
    forward: float
    backward: float

    def column(self, kind: str, place: int) -> list[float]:
        """Times at one place of all lines of a kind, in seconds."""
        return [numbers[place] * MS for numbers in self.lines[kind]]


@dataclass
class RawRun:
    """Steps of one run. `settings`: its numbers by name, from the line that announces it."""

    settings: dict[str, str] = field(default_factory=dict)
    steps: list[RawStep] = field(default_factory=list)

    @property
    def times(self) -> list[float]:
        return [step.time for step in self.steps]

    @property
    def steady(self) -> list[RawStep]:
        """Steps without the warm-up."""
        return self.steps[warm_up(self.times) :]


@cache
def moe_runs(name: str) -> list[RawRun]:
    """Runs of a log of the MoE layer's benchmark: each starts at its [Benchmark] line, each step ends at its STEP."""
    runs: list[RawRun] = []
    kinds: dict[str, list[Numbers]] = {kind: [] for kind in KINDS}
    for line in lines(name):
        if line.startswith("[Benchmark]"):
            runs.append(RawRun(dict(re.findall(r"(\w+) = `?([\w.:]+)", line))))
        for kind, pattern in KINDS.items():
            if match := re.fullmatch(pattern, line):
                kinds[kind].append(tuple(map(float, match.groups())))
                break
        if line.startswith("STEP-"):
            _, *times = (value * MS for value in kinds["STEP"][-1][:4])
            runs[-1].steps.append(RawStep(kinds, *times))
            kinds = {kind: [] for kind in KINDS}
    return runs


SWEEP_STEP = r"STEP-(\d+): step_time = (\S+) ms, foward_time = (\S+), backward_time = ([\d.]+).*"
SWEEP_SUMMARY = r" (\S+ \S+ \d+) \[Summary\] Average synchronized step_time = (\S+) ms,.*"


@cache
def sweep_runs() -> list[RawRun]:
    """Runs of the sweep: each starts at step 0, and its summary names it."""
    runs: list[RawRun] = []
    for line in lines("training_sweep"):
        if match := re.fullmatch(SWEEP_STEP, line):
            if match[1] == "0":
                runs.append(RawRun())
            runs[-1].steps.append(RawStep({}, *(float(text) * MS for text in match.groups()[1:])))
        elif match := re.fullmatch(SWEEP_SUMMARY, line):
            runs[-1].settings |= {"name": match[1], "mean_ms": match[2]}
    return runs


def mean_step(steps: Sequence[RawStep]) -> float:
    return mean(step.time for step in steps)


def mean_phase(steps: Sequence[RawStep], kind: str, place: int, ranks: int = 4) -> float:
    """Time of a phase in a step of a rank: mean over ranks and steps, all its lines of a step together."""
    return mean(sum(step.column(kind, place)) for step in steps) / ranks


def slowest_minus_mean(steps: Sequence[RawStep], kind: str, place: int, ranks: int = 4) -> float:
    """How much longer than the mean of the ranks the slowest takes in a step: mean over the steps.

    All ranks print a phase before one of them prints it again, so each four lines are one time that it ran.
    """
    total = 0.0
    for step in steps:
        times = step.column(kind, place)
        each = [times[i : i + ranks] for i in range(0, len(times), ranks)]
        total += sum(max(of_ranks) - mean(of_ranks) for of_ranks in each)
    return total / len(steps)


def executed_rows(steps: Sequence[RawStep], block: int = 64) -> list[float]:
    """Rows of the expert's matrices that each rank computes in each step: blocks of 64 rows, as `block_info` counts."""
    return [block * blocks for step in steps for blocks, _ in step.lines["block_info"]]


# --- nvprof -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProfileRow:
    """Row of a profiler's table. `range`: the NVTX range whose table it is in; None: of the whole profile."""

    range: str | None
    kind: str
    name: str
    calls: int
    time: float
    longest: float

    @property
    def others(self) -> float:
        """Mean time of the calls besides the longest."""
        return (self.time - self.longest) / (self.calls - 1)


def seconds(text: str) -> float:
    """A time with its unit, such as 4.0922ms."""
    number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", text).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]


PROFILE_ROW = r" *(?:(GPU activities|API calls|Range):)? +[\d.]+% +(\S+) +(\d+) +\S+ +\S+ +(\S+) +(.+)"


@cache
def profile_rows() -> list[ProfileRow]:
    """All rows of all tables of the profile."""
    rows: list[ProfileRow] = []
    of_range, kind = None, ""
    for line in lines("nvprof"):
        if match := re.fullmatch(r"==\d+== +Range \"(.*)\"", line):
            of_range = match[1]
        if row := re.fullmatch(PROFILE_ROW, line):
            kind = row[1] or kind
            rows.append(ProfileRow(of_range, kind, row[5], int(row[3]), seconds(row[2]), seconds(row[4])))
    return rows


# --- the pipeline -------------------------------------------------------------------------------------------------

EPOCH_LINE = r"\| epoch +\d+ \| +(\d+)/ +\d+ batches \| lr \S+ \| ms/batch +(\S+) \| loss +(\S+) \| ppl +(\S+)"
STAGE_LINE = r"\[rank:\d+ stage:(\d+)\] transformer-block\(module\) forward time \(no send/recv\) - step (\d+)"
LAYER_RECORD = r"layer\[\w+\]: total=([\d.]+)ms"


@dataclass(frozen=True)
class EpochLine:
    """Line of one batch: its line number, step (batch i is step i + 1), time, loss and perplexity."""

    line: int
    step: int
    time: float
    loss: float
    perplexity: float


@cache
def epoch_lines() -> list[EpochLine]:
    found = hits("pipeline_layers", EPOCH_LINE)
    return [EpochLine(line, int(i) + 1, float(ms) * MS, float(loss), float(ppl)) for line, (i, ms, loss, ppl) in found]


@cache
def stage_steps() -> dict[int, dict[int, float]]:
    """Forward time of the layers of each stage, by step and stage.

    Where lines of two ranks are glued together, the k-th layer of a line belongs to the k-th header.
    """
    steps: dict[int, dict[int, float]] = {}
    headers: list[tuple[int, int]] = []
    for line in lines("pipeline_layers"):
        if starts := re.findall(STAGE_LINE, line):
            headers = [(int(step), int(stage)) for stage, step in starts]
        for (step, stage), total in zip(headers, re.findall(LAYER_RECORD, line), strict=False):
            of_step = steps.setdefault(step, {})
            of_step[stage] = of_step.get(stage, 0.0) + float(total) * MS
    return steps


def stage_times() -> dict[int, float]:
    """Forward time of the layers of each stage in a step: median over the steady steps.

    Steps are steady by the time of all stages together.
    """
    steps = [of_step for _, of_step in sorted(stage_steps().items())]
    steady = steps[warm_up([sum(of_step.values()) for of_step in steps]) :]
    return {stage: median(of_step[stage] for of_step in steady) for stage in sorted(steady[0])}


@dataclass(frozen=True)
class ModelledPipeline:
    """The step of a pipeline by the schedule 1F1B, from the forward times of its stages (METRICS C5).

    `makespan`: m micro-batches pass the slowest stage, the first of them all the others. `busy`: work of the mean
    stage. `ramp`: with equal stages, (p - 1) / m of it. `unequal`: what the makespan has besides.
    """

    makespan: float
    busy: float
    ramp: float

    @property
    def unequal(self) -> float:
        return self.makespan - self.busy - self.ramp


def modelled_pipeline() -> ModelledPipeline:
    (micro_batches,) = (int(match.groups[0]) for match in hits("pipeline_layers", r"> GAS: (\d+)"))
    each = [time / micro_batches for time in stage_times().values()]
    makespan = sum(each) + (micro_batches - 1) * max(each)
    return ModelledPipeline(makespan, micro_batches * mean(each), (len(each) - 1) * mean(each))
