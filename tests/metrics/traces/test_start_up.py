"""Start-up in traces: idle time of a device while the host captures graphs or compiles."""

from __future__ import annotations

from typing import Any

import pytest
from support.trace_tables import Event, by_hand, kernel, step

from perflog.metrics.traces.start_up import CAPTURE, COMPILATION, start_ups


def call(name: str, start: int, end: int, kind: str = "runtime", **more: Any) -> Event:
    return kernel(start, end, name, **({"kind": kind, "device": None, "stream": None} | more))


def found(*events: Event) -> dict[str, float]:
    """Idle ns of the only run, by what the host does."""
    return {each.what: round(each.time_s * 1e9, 3) for each in start_ups(by_hand(list(events)))}


WORK = [kernel(0, 100), kernel(300, 400)]
BEGIN, END = "cudaStreamBeginCapture", "cudaStreamEndCapture"


def test_idle_time_during_a_capture() -> None:
    """From the begin of the first call to the end of the second: 50 to 260, of which 100 to 260 is idle."""
    capture = [call(BEGIN, 50, 55), call(END, 250, 260)]
    assert found(*WORK, *capture) == {CAPTURE: 160}
    assert found(*WORK, call("hipStreamBeginCapture", 150, 151), call("hipStreamEndCapture", 250, 260)) == {
        CAPTURE: 110
    }
    assert found(*WORK, call(END, 120, 130), call(BEGIN, 150, 155)) == {}  # one has no end, the other no begin
    two = [call(BEGIN, 110, 111), call(END, 120, 121), call(BEGIN, 200, 201), call(END, 230, 231)]
    assert found(*WORK, *two) == {CAPTURE: 11 + 31}
    assert found(*WORK, *capture, call(BEGIN, 500, 501)) == {CAPTURE: 160}
    assert found(*WORK, call("cudaStreamIsCapturing", 150, 250)) == {} == found(*WORK)
    assert found(*WORK, capture[0], call(END, 250, 260, duration_ns=None)) == {}


@pytest.mark.parametrize(
    ("name", "kind", "compiles"),
    [
        ("cuModuleLoadData", "runtime", True),
        ("cudaLibraryLoadData", "runtime", True),
        ("hiprtcCompileProgram", "runtime", True),
        ("torch/_dynamo/convert_frame.py(900): _compile", "python", True),
        ("torch/_inductor/compile_fx.py(1): compile_fx", "python", True),
        ("triton/compiler/compiler.py(1): compile", "python", True),
        ("triton/compiler/compiler.py(1): compiled_hook", "python", False),
        ("backend_compile (dynamo_timed)", "cpu", True),
        ("my backend_compile", "range", False),
        ("cuModuleLoadData", "sync", False),
        ("cudaLaunchKernel", "runtime", False),
    ],
)
def test_calls_that_compile(name: str, kind: str, compiles: bool) -> None:
    assert found(*WORK, call(name, 90, 150, kind)) == ({COMPILATION: 50} if compiles else {})


def test_calls_inside_each_other_count_once() -> None:
    assert found(*WORK, call("cuModuleLoad", 110, 150), call("cuModuleLoad", 140, 200)) == {COMPILATION: 90}


def test_of_several_devices_the_mean_counts() -> None:
    load = call("cuModuleLoad", 90, 250)
    busy = kernel(0, 400, device=1)
    assert found(*WORK, busy, load) == {COMPILATION: 75}
    other_file = [kernel(0, 400, device=1, rank=1, part=1)]
    assert found(*WORK, *other_file, load) == {COMPILATION: 75}
    assert found(*WORK, kernel(5, 5, device=2), load) == {COMPILATION: 150}  # no device that did anything


def test_with_annotated_steps_it_is_the_time_of_a_step() -> None:
    steps = [step(1, 0, 200), step(2, 200, 400)]
    assert found(*WORK, *steps, call("cuModuleLoad", 90, 260)) == {COMPILATION: 80}
    outside = [*WORK, kernel(600, 700), *steps]  # between 400 and 600 there is no step
    assert found(*outside, call("cuModuleLoad", 90, 500)) == {COMPILATION: 100}


def test_each_run_has_its_own() -> None:
    runs = [*WORK, *(event | {"run": "s"} for event in (*WORK, call("cuModuleLoad", 100, 200)))]
    assert [(each.run, each.what) for each in start_ups(by_hand(runs))] == [("s", COMPILATION)]
