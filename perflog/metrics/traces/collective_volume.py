"""Volume of collectives: calls and bytes of the messages by operation, group and type, also where nothing is timed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.traces.recorded_operators import Ints, Operators, operators_by_file
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import NULL, Rows, of_arrow

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank of the trace"),
    MetricColumn("op", meaning="operation, as named in the trace; of c10d operators their name"),
    MetricColumn("group", meaning="process group, as named in the trace"),
    MetricColumn("group_description", meaning="purpose of the group, as named in the trace"),
    MetricColumn("group_ranks", meaning="ranks of the group, as printed", brief=False),
    MetricColumn("ranks", meaning="number of ranks in the group"),
    MetricColumn("dtype", meaning="element type"),
    MetricColumn("calls", meaning="number of calls"),
    MetricColumn(
        "bytes", "B", "lower", "sum of the messages: of each call the larger of its buffers; null: not stated"
    ),
    MetricColumn("largest", "B", None, "bytes of the largest message"),
    MetricColumn("smallest", "B", None, "bytes of the smallest message", brief=False),
    MetricColumn("first_line", meaning="line of the first call", brief=False),
)
_KEYS = ("group", "group_description", "group_ranks", "dtype")
_C10D = re.compile(r"c10d::_?(\w+?)_*$")  # operators of torch.distributed, where the trace describes no message
_NO_MESSAGE = frozenset(("barrier", "monitored_barrier"))


@metric(
    title="volume of collectives",
    needs=("events",),
    columns=_COLUMNS,
    main="bytes",
    formula="sum of the bytes of the messages; each collective counts once: as kernel where kernels describe it, else "
    "as call of the host, else as c10d operator with the bytes of its tensors",
    source="events that describe a message: PyTorch's profiler and execution traces, NVTX ranges of NCCL, RCCL",
)
def collective_volume(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """Calls and bytes of the collectives of each trace by operation, group and element type, the most bytes first.

    Example:
        >>> table = perflog.metrics.collective_volume(perflog.read("trace.json"))
        >>> sorted(table.columns)[:3]
        ['bytes', 'calls', 'dtype']
    """
    import pandas as pd

    labels = dict(tables.rows("runs").records("run", "label"))
    where: Where = {"kind": one_of("kernel", "cpu", "range", "library", "runtime")}
    columns = (
        "rank",
        "kind",
        "name",
        "collective",
        "group",
        "group_description",
        "group_ranks",
        "ranks",
        "dtype",
        "bytes",
    )
    parts = []
    sizes = {(each.run, each.part): each for each in operators_by_file(tables)}  # with those of another recording
    for place, events in tables.arrow_by_file("events", where, *columns):
        chosen = _messages(of_arrow(events))
        if chosen is not None:
            rows, operations = chosen
            table = _rows(rows, operations, _bytes(rows, sizes.get(place)))
            parts.append(table.assign(run=place[0], label=labels.get(place[0])))
    names = [c.name for c in _COLUMNS]
    table = pd.concat(parts, ignore_index=True)[names] if parts else pd.DataFrame(columns=names)
    whole = dict.fromkeys(("rank", "ranks", "calls", "bytes", "largest", "smallest", "first_line"), "Int64")
    return table.astype(whole | dict.fromkeys(("op", *_KEYS), object))


def _messages(rows: Rows) -> tuple[Rows, list[str | None]] | None:
    """Return the events that are collectives, each once, with the operation of each; None if there are none."""
    codes, words = rows.codes("collective")
    described = codes >= 0
    if described.any():
        kernels = described & rows.one_of("kind", ["kernel"])
        chosen = np.flatnonzero(kernels if kernels.any() else described)
        return rows.where(chosen), [words[code] for code in codes[chosen].tolist()]
    codes, words = rows.codes("name")
    matches = [_C10D.match(word) for word in words]
    is_c10d = np.array([*(match is not None and match[1] not in _NO_MESSAGE for match in matches), False], np.bool_)
    chosen = np.flatnonzero(is_c10d[codes])
    if not len(chosen):
        return None
    return rows.where(chosen), [match[1] if (match := matches[code]) else None for code in codes[chosen].tolist()]


def _bytes(rows: Rows, operators: Operators | None) -> Ints:
    """Return the bytes of messages; where an event has none, those of the operator on its line."""
    sizes: Ints = rows["bytes"]
    if operators is None:
        return sizes
    order = np.argsort(operators.lines)
    place = np.minimum(np.searchsorted(operators.lines[order], rows["line"]), len(order) - 1)
    same = operators.lines[order][place] == rows["line"]
    return np.where((sizes == NULL) & same, operators.bytes[order][place], sizes)


def _rows(rows: Rows, operations: list[str | None], sizes: Ints) -> pd.DataFrame:
    """Rows of one file."""
    import pandas as pd

    columns: dict[str, object] = {"op": operations, "line": rows["line"]}
    for name in _KEYS:
        codes, words = rows.codes(name)
        columns[name] = np.array([*words, None], object)[codes]
    for name, numbers in (("rank", rows["rank"]), ("ranks", rows["ranks"]), ("bytes", sizes)):
        columns[name] = pd.arrays.IntegerArray(np.where(numbers == NULL, 0, numbers).astype(np.int64), numbers == NULL)
    grouped = pd.DataFrame(columns).groupby(["rank", "op", *_KEYS, "ranks"], sort=False, dropna=False)
    table = grouped.agg(
        calls=("line", "size"), largest=("bytes", "max"), smallest=("bytes", "min"), first_line=("line", "min"),
        known=("bytes", "count"), bytes=("bytes", "sum"),
    ).reset_index()  # fmt: skip
    table["bytes"] = table["bytes"].where(table["known"] > 0, pd.NA)
    return table.sort_values("bytes", ascending=False, kind="stable")
