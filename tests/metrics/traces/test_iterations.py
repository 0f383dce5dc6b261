"""Iterations found by repeated kernels: made sequences, and real traces against the steps that they annotate."""

from __future__ import annotations

import gzip
import json
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.field_logs import CORPUS, needs_corpus, stored

import perflog
from perflog.metrics import Tables, device_time
from perflog.metrics.traces.device_work import trace_devices
from perflog.metrics.traces.iterations import iterations

ADAM = 99  # a kernel of the optimizer


def found_in(names: list[int]) -> list[tuple[int, int]]:
    """First kernel of each iteration, and the first one behind it, in a sequence of kernels of 8 us every 10 us."""
    starts = np.arange(len(names)) * 10
    codes = np.array(names, np.int64)
    found = iterations(starts, starts + 8, codes, np.zeros(len(names), np.int64), codes == ADAM)
    return [(int(a) // 10, (int(b) + 2) // 10) for a, b in zip(found.starts, found.ends, strict=True)]


FORWARD, BACKWARD = [10, 11, 12, 13, 11, 14], [24, 21, 23, 22, 21, 20]
MODEL = [1, 2, *FORWARD * 4, 3, 4, *BACKWARD * 4, 5]


@examples(100)
@given(st.integers(3, 8), st.integers(0, len(MODEL)), st.integers(0, len(MODEL)), st.booleans())
def test_a_loop_is_found_wherever_the_trace_begins(number: int, before: int, behind: int, trains: bool) -> None:
    body = [*MODEL, *[ADAM] * 3] if trains else MODEL
    front, back = body[len(body) - before % len(body) :], body[: behind % len(body)]
    names = [*front, *body * number, *back]
    found = found_in(names)
    assert {end - begin for begin, end in found} == {len(body)}
    assert all(end == begin for (_, end), (begin, _) in pairwise(found))
    assert len(found) == len(names) // len(body)  # as many as fit
    assert found[0][0] < len(body)


@pytest.mark.parametrize(
    "names",
    [
        [1, 2, *[*FORWARD, 7, 8, 9, 15] * 24, 3, 4],  # layers of a model
        [*MODEL, *[ADAM] * 5],  # one step of training
        [1, 2, *FORWARD * 24, 3, *BACKWARD * 24, 4],
        [*[*MODEL] * 4, *[ADAM] * 3] * 2,  # micro-batches, and two steps
        [7] * 500,  # one kernel
        [*MODEL] * 2,
        [9, *range(30, 42), *[9, *range(10, 22)] * 3],  # the first piece is no iteration
        list(range(100)),
        [],
    ],
)
def test_no_iteration_where_nothing_clearly_repeats(names: list[int]) -> None:
    assert not found_in(names)


@pytest.mark.parametrize(("more", "found"), [(1, 5), (6, 5), (20, 0)])
def test_iterations_need_not_be_quite_alike(more: int, found: int) -> None:
    """One of five steps of 57 kernels launches some kernels more: a tenth of both may differ."""
    body = [*MODEL, *[ADAM] * 3]
    assert len(found_in([*body * 2, *MODEL, *[30] * more, *[ADAM] * 3, *body * 2])) == found


def test_micro_batches_are_parts_of_a_step() -> None:
    body = [*MODEL * 4, *[ADAM] * 3]
    assert found_in(body * 3) == [(k * len(body), (k + 1) * len(body)) for k in range(3)]


def test_a_start_up_is_no_part_of_an_iteration() -> None:
    """Weights are made, then it trains: an iteration begins behind the optimizer of the one before."""
    body = [*MODEL, *[ADAM] * 3]
    first = 40
    ends = list(accumulate([len(body)] * 5, initial=first))
    found = found_in([*[50, 51] * 20, *body * 5])
    assert found[-4:] == [*pairwise(ends)][-4:]
    assert found[0][0] >= first


def without_steps(path: Path, folder: Path) -> perflog.Log:
    whole = json.loads(gzip.decompress(path.read_bytes()))
    whole["traceEvents"] = [each for each in whole["traceEvents"] if "ProfilerStep" not in str(each.get("name"))]
    (folder / "trace.json").write_text(json.dumps(whole))
    return perflog.read(folder / "trace.json")


@needs_corpus
def test_the_iterations_of_a_real_trace_are_its_steps(tmp_path: Path) -> None:
    (path,) = (CORPUS / "torchtrace").glob("*trace_diff_control.json.gz")
    logs = stored(path), without_steps(path, tmp_path)
    (annotated,), (found,) = (trace_devices(Tables(log)) for log in logs)
    assert len(found.steps.numbers) == len(annotated.steps.numbers) == 6
    work = annotated.work
    kernels = work.rows.one_of("kind", ["kernel"])
    for number, begin in zip(annotated.steps.numbers, found.steps.starts, strict=True):
        assert begin == work.starts[kernels & (work.rows["step"] == number)][0]
    shares = [table[table["part"] == "step"]["idle_share"].mean() for table in map(device_time, logs)]
    assert shares[0] == pytest.approx(shares[1], abs=0.005)


@needs_corpus
@pytest.mark.parametrize("name", ["timesformer_h100", "profile-data__train", "sampled_rank-0", "sglang"])
def test_layers_of_real_traces_are_no_iterations(name: str, tmp_path: Path) -> None:
    (path,) = (path for path in (CORPUS / "torchtrace").glob("*.json.gz") if name in path.name)
    assert not any(len(device.steps.numbers) for device in trace_devices(Tables(without_steps(path, tmp_path))))
