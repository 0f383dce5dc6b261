"""The headline: what binds a run, in one or two sentences made from its causes.

`metrics.causes.binding` chooses the cause. No other module has sentences on the bottleneck, so no two can contradict
each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from perflog.analysis.overview.parts import percent
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Options, Tables, device_kernels, kernels
from perflog.metrics.causes import bound_by, causes_by_run
from perflog.metrics.causes.cause import BOUND, PIPELINE, REPLAY, Cause
from perflog.metrics.profiles.kernel_names import short_kernel
from perflog.metrics.step_time.breakdown import TRACED_STEP
from perflog.units import count, show

_MOSTLY = 0.5  # of the whole: less is named with the second
_TENSOR_CORES = lazy_pattern(
    r"tensorop|hmma|884|1688|16816|xmma|gmma|tf32|bf16|mma\.|_h\d|fp8|hgemm|igemm", re.IGNORECASE
)
_FP32 = lazy_pattern(r"sgemm|gemmsn|ffma", re.IGNORECASE)
_WITHOUT = {
    "host": ("the host", "if it were infinitely fast"),
    "device": ("the device", "if it were infinitely fast"),
    "compute": ("compute", "if its kernels were infinitely fast"),
    "communication": ("communication", "if it were free"),
    "copies": ("copies", "if they were free"),
    "launch": ("launches", "if they were free"),
    "waiting": ("waiting", "if there were none"),
    "data": ("data loading", "if it were infinitely fast"),
    "rank": ("rank", "if it were as fast as the median rank"),
    "unequal stages": ("unequal stages", "if each computed as long as the mean stage"),
    "late rank": ("rank", "if it arrived with the others"),
}
"""By subject of a cause in a trace: its words, and what the replay changes."""
_WORDS = {
    "idle": "idle GPU",
    "host": "the host, while the GPU idles",
    "data": "data loading, while the GPU idles",
    "launch": "launches, while the GPU idles",
    "waiting": "waiting with work queued",
    "communication": "exposed communication",
    "copies": "exposed copies",
}
_STARTS = {"graph capture": "captures graphs", "compilation": "compiles or loads kernels"}
"""What the host does in a trace of a start."""


def headline(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield the bottleneck of a run; nothing if its log does not show it, or if facts of the job say it."""
    causes = causes_by_run(tables, options).get(run, ())
    cause = bound_by(tables, run, options)
    tell = None if cause is None else _tellers(cause)
    if cause is not None and tell is not None:
        yield from tell(cause, causes, tables, options)


_Teller = Callable[[Cause, Sequence[Cause], Tables, Options], Iterator[str]]


def _tellers(cause: Cause) -> _Teller | None:
    if cause.of in ("step", "phases"):
        return _phase
    if cause.of in (TRACED_STEP, "trace"):
        return _trace
    if cause.of in ("gpu", "api"):
        return _profile
    return _stage if cause.of == PIPELINE else None


def _phase(cause: Cause, causes: Sequence[Cause], tables: Tables, options: Options) -> Iterator[str]:  # noqa: ARG001
    if cause.subject == "rank":
        if cause.ratio is None:
            longer = f"its {cause.name} takes {show(cause.time_s, 's', 3)}, and next to nothing on the others"
        else:
            longer = f"its {cause.name} takes {cause.ratio:.2f} times as long as on the others"
        shorter = f"the step would be at most {percent(cause.gain)} shorter"
        yield f"Bottleneck: rank {cause.rank}: {longer}; without that, {shorter}."
        return
    text = f"Bottleneck: {cause.name}, {percent(cause.share)} of the {cause.of}"
    if cause.share > _MOSTLY:
        yield f"{text}{' by the clock of the host' if cause.subject == 'data' else ''}."
        return
    second = next(each for each in causes if each.of == cause.of and each.may_bind and each is not cause)
    yield f"{text}; then {second.name}, {percent(second.share)}."


def _trace(cause: Cause, causes: Sequence[Cause], tables: Tables, options: Options) -> Iterator[str]:
    if cause.subject in _STARTS:
        told = f"the host {_STARTS[cause.subject]} in {percent(cause.share)} of the time, while the GPU idles"
        yield f"Bottleneck: {cause.subject}: {told}. So this is a trace of a start, and not of steady steps."
        return
    if cause.metric != REPLAY and cause.subject != "rank":
        yield f"Bottleneck: {_WORDS.get(cause.subject, cause.subject)}, {percent(cause.share)} of the time."
        return
    words, change = _WITHOUT[cause.subject if cause.metric == REPLAY or cause.subject != "rank" else "late rank"]
    place = f"{'rank' if cause.rank is not None else 'device'} {cause.device if cause.rank is None else cause.rank}"
    whole = "trace" if cause.of == "trace" else "step"
    if cause.subject == "compute" and _are_whole_graphs(tables, cause.run, options):
        words, change = "CUDA graphs, whose kernels are not traced", "if they took no time"
    text = f"Bottleneck: {place if cause.subject == 'rank' else words}; {change}, the {whole} would be"
    text += f"{' at most' * (cause.by == BOUND)} {percent(cause.gain)} shorter"
    against = "device" if cause.subject in ("host", "launch", "data") else "host"
    other = next((each for each in causes if each.metric == REPLAY and each.subject == against), None)
    if other is not None:
        text += f" (with an infinitely fast {against} {percent(other.gain)})"
    yield f"{text}."


def _are_whole_graphs(tables: Tables, run: str, options: Options) -> bool:
    """Whether most of what counts as computation are graphs that are traced as one piece each."""
    rows = device_kernels.table_of(run, tables, options)
    times = rows[(rows["by"] == "category") & (rows["state"] == "compute")].groupby("category")["time_s"].sum()
    return bool(float(times.get("graph", 0.0)) > _MOSTLY * float(times.sum()))


def _profile(cause: Cause, causes: Sequence[Cause], tables: Tables, options: Options) -> Iterator[str]:
    work = {"gpu": "GPU work", "api": "time of API calls"}[cause.of]
    noun = "kernel" if cause.of == "gpu" else "call"
    kernel = next((each for each in causes if each.subject == "kernel" and each.of == cause.of), None)
    name = kernel and short_kernel(str(kernel.name))
    calls = "" if kernel is None or not kernel.n else f"{count(kernel.n, 'call')} x {show(kernel.each_s, 's', 3)}, "
    if cause is kernel:
        yield f"Bottleneck: {noun} {name}, {calls}{percent(cause.share)} of the {work}."
        return
    rows = kernels.table(tables, options)
    rows = rows[(rows["run"] == cause.run) & (rows["of"] == cause.of) & (rows["by"] == "name")]
    names = list(rows["name"][rows["category"] == cause.name])
    if cause.name == "gemm" and all(_FP32.search(n) and not _TENSOR_CORES.search(n) for n in names):
        words = zip(*(short_kernel(n).split("_") for n in names), strict=False)
        family = "_".join(alike[0] for alike in takewhile(lambda alike: len(set(alike)) == 1, words))
        every = f"every gemm is {family}, " if family else ""
        yield f"Bottleneck: FP32 matrix products, {percent(cause.share)}: {every}no tensor cores."
    else:
        yield f"Bottleneck: {cause.name}, {percent(cause.share)} of the {work}."


def _stage(cause: Cause, causes: Sequence[Cause], tables: Tables, options: Options) -> Iterator[str]:  # noqa: ARG001
    yield f"Bottleneck: stage {cause.stage} ({cause.name}) takes {cause.ratio:.1f} times the mean stage."
