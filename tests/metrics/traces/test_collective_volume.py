"""Volume of collectives: against a walk through the calls one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.trace_tables import by_hand, kernel

from perflog.metrics import Tables, collective_volume
from perflog.metrics.traces.operators import collective_volume as module
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pytest

    from perflog.metrics.traces.operators.recorded_operators import Operators

_KEYS = ("rank", "op", "group", "group_description", "group_ranks", "dtype", "ranks")
_FIGURES = ("calls", "bytes", "largest", "smallest", "first_line")

call = st.fixed_dictionaries({
    "collective": st.sampled_from(["allreduce", "send"]), "rank": st.sampled_from([None, 0, 3]),
    "group": st.sampled_from([None, "0"]), "group_description": st.sampled_from([None, "data"]),
    "dtype": st.sampled_from([None, "Float"]), "ranks": st.sampled_from([None, 2]),
    "bytes": st.sampled_from([None, 0, 8, 1000]),
})  # fmt: skip


def volumes(calls: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows of the metric, by plain Python."""
    groups: dict[tuple[Any, ...], list[tuple[int, int | None]]] = {}
    for line, each in enumerate(calls, 1):
        key = (each["rank"], each["collective"], each["group"], each["group_description"], None, each["dtype"])
        groups.setdefault((*key, each["ranks"]), []).append((line, each["bytes"]))
    rows = []
    for key, messages in groups.items():
        known = [size for _, size in messages if size is not None]
        figures = (sum(known), max(known), min(known)) if known else (None, None, None)
        rows.append((*key, len(messages), *figures, messages[0][0]))
    return sorted(rows, key=lambda row: (row[8] is None, -(row[8] or 0), row[-1]))


@given(st.lists(call, min_size=1, max_size=12))
def test_each_group_of_calls_is_a_row(calls: list[dict[str, Any]]) -> None:
    table = collective_volume(by_hand([kernel(at * 10, at * 10 + 5) | each for at, each in enumerate(calls)]))
    found = table[[*_KEYS, *_FIGURES]].astype(object).to_numpy().tolist()
    assert [tuple(map(none_if_null, row)) for row in found] == volumes(calls)


def test_a_message_without_a_size_has_the_size_of_the_operator_on_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators in the order of their calls, of lines 4, 2 and 3."""
    events = [kernel(10 * at, 10 * at + 5, collective="send", bytes=5 if at == 3 else None) for at in range(1, 5)]
    operators = SimpleNamespace(run="r", part=0, lines=np.array([4, 2, 3]), bytes=np.array([40, 20, 30]))
    monkeypatch.setattr(module, "operators_by_file", lambda _: [operators])
    (row,) = collective_volume(by_hand(events)).to_dict("records")
    assert (row["run"], row["label"], row["calls"]) == ("r", "r", 4)
    assert (row["bytes"], row["smallest"], row["largest"]) == (20 + 5 + 40, 5, 40)  # nothing is known of line 1


def test_two_names_of_an_operation_are_one() -> None:
    names = ("c10d::allreduce_", "c10d::_allreduce_", "c10d::barrier", "aten::add", "c10d::send")
    on_host: dict[str, Any] = {"kind": "cpu", "device": None, "stream": None}
    table = collective_volume(by_hand([kernel(10 * at, 10 * at + 5, name, **on_host) for at, name in enumerate(names)]))
    assert list(zip(table["op"], table["calls"], table["first_line"], strict=True)) == [
        ("allreduce", 2, 1),
        ("send", 1, 5),
    ]


def test_operators_are_read_only_where_a_message_has_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Tables] = []

    def recorded(tables: Tables) -> list[Operators]:
        read.append(tables)
        return []

    monkeypatch.setattr(module, "operators_by_file", recorded)
    whole = kernel(0, 5, collective="allreduce", bytes=8)
    assert collective_volume(by_hand([whole]))["bytes"].tolist() == [8] and not read
    assert collective_volume(by_hand([whole, whole | {"bytes": None}]))["bytes"].tolist() == [8] and len(read) == 1
