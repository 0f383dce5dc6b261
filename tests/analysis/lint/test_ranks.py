"""Rules on ranks: rows without one, ranks that print less than others, layers on several stages."""

from __future__ import annotations

from typing import Any

import pytest
from support.linted import TableRow, linted, messages, steps


def phase(step: int | None, rank: int | None, name: str = "forward", time_s: float = 1.0, **more: Any) -> TableRow:
    usual = {"table": "phases", "step": step, "rank": rank, "phase": name, "time_s": time_s, "occurrence": 1}
    return usual | more


def test_rows_without_a_rank() -> None:
    rows = [phase(step, rank) for step in (1, 2) for rank in (0, 1)] + [phase(3, None), phase(3, None, "backward")]
    (finding,) = linted("no-rank", rows)
    assert finding.message == "2 of 6 rows of phases have no rank: forward 1 of 5, backward 1 of 1"
    assert finding.numbers == {"phases": {"forward": 1, "backward": 1}}
    assert finding.evidence["lines"] == {"r": [5, 6]}
    several = [phase(1, None), phase(1, None)]
    assert messages("no-rank", several) == ["2 of 2 rows of phases have no rank: forward 2 of 2"]
    assert messages("no-rank", [phase(1, None), phase(2, None), phase(1, None, "backward")]) == []  # one per step
    assert messages("no-rank", [phase(1, 0), phase(1, 1)]) == []
    names = [phase(1, None, f"p{n:02}") for n in range(14) for _ in range(2)]
    (many,) = messages("no-rank", names)
    assert many.endswith("p10 2 of 2, p11 2 of 2 and 2 more")
    loads = [{"table": "loads", "step": 1, "unit": "tokens", "amount": 1.0}] * 2
    (both,) = linted("no-rank", [*several, *loads])
    assert both.evidence["lines"] == {"r": [1, 2, 3, 4]}
    assert messages("no-rank", [phase(1, None), phase(2, None), *loads]) == [
        "2 of 2 rows of loads have no rank: tokens 2 of 2"
    ]
    assert messages("no-rank", [*several, *loads]) == [
        "2 of 2 rows of phases have no rank: forward 2 of 2; 2 of 2 rows of loads have no rank: tokens 2 of 2"
    ]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ([], None),
        ([(2, 1, "forward")], "1 step with fewer rows of forward than most: 2"),
        ([(2, 1, "forward"), (4, 0, "forward"), (4, 1, "backward")],
         "2 steps with fewer rows of backward, forward than most: 2, 4"),
        ([(5, 0, "forward"), (5, 1, "forward")], "1 step with fewer rows of forward than most: 5"),
        ([(step, 1, "forward") for step in range(1, 7)], None),  # it prints in no step
        ([(step, 1, "forward") for step in range(1, 6)], None),  # once more is not fewer
    ],
)  # fmt: skip
def test_steps_in_which_a_rank_did_not_print(missing: list[tuple[int, int, str]], message: str | None) -> None:
    rows = [phase(step, rank, name) for step in range(1, 7) for name in ("forward", "backward") for rank in (0, 1)
            if (step, rank, name) not in missing]  # fmt: skip
    found = linted("ranks-incomplete", [*steps(*range(1, 7)), *rows])
    assert [each.message for each in found] == ([] if message is None else [message])
    for each in found:
        assert each.numbers["steps"] == sorted({step for step, *_ in missing})


def test_a_rank_that_stands_out() -> None:
    times = [(step, rank, 1.0 + 0.01 * ((step * 7 + rank * 3) % 5)) for step in range(30) for rank in range(6)]
    rows = [phase(step, rank, time_s=3.0 if rank == 4 else time) for step, rank, time in times]
    (finding,) = linted("rank-stands-out", [*steps(*range(30)), *rows])
    assert finding.message == "1 rank of 6 far from the others: rank 4 (forward)"
    assert (finding.severity, finding.numbers) == ("warning", {"ranks": {"rank 4": ["forward"]}})
    assert finding.evidence["count"] == 30 and finding.first_line == 30 + 5
    even = [phase(step, rank, time_s=time) for step, rank, time in times]
    assert linted("rank-stands-out", [*steps(*range(30)), *even]) == []


def layer(name: str, stage: int | None, step: int | None = 1) -> TableRow:
    return {"table": "layers", "layer": name, "stage": stage, "step": step, "time_s": 1.0, "direction": "forward"}


def test_layers_on_several_stages() -> None:
    rows = [layer("10", 1), layer("2", 3), layer("10", 0), layer("2", 1), layer("3", 0), layer("3", 0, 2)]
    (finding,) = linted("layer-split", rows)
    assert finding.message == "2 layers on more than one stage: 2 (stages 1, 3), 10 (stages 0, 1)"
    assert finding.numbers == {"layers": {"2": [1, 3], "10": [0, 1]}}
    assert finding.evidence["lines"] == {"r": [1, 2, 3, 4]}
    assert linted("layer-split", [layer("1", 0), layer("1", None), layer("1", 1, None)]) == []
