"""Volume of collectives: calls and bytes of the messages by operation, group and type, also where nothing is timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Ints, Keys
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.traces.operators.recorded_operators import operators_by_file
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import NULL, Rows, rows_from_arrow

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank of the trace", type="Int64"),
    MetricColumn("op", meaning="operation, as named in the trace; of c10d operators their name", type="object"),
    MetricColumn("group", meaning="process group, as named in the trace", type="object"),
    MetricColumn("group_description", meaning="purpose of the group, as named in the trace", type="object"),
    MetricColumn("group_ranks", meaning="ranks of the group, as printed", brief=False, type="object"),
    MetricColumn("ranks", meaning="number of ranks in the group", type="Int64"),
    MetricColumn("dtype", meaning="element type", type="object"),
    MetricColumn("calls", meaning="number of calls", type="Int64"),
    MetricColumn("bytes", "B", "lower", "sum of the messages: of each call the larger of its buffers; null: not stated",
                 type="Int64"),
    MetricColumn("largest", "B", None, "bytes of the largest message", type="Int64"),
    MetricColumn("smallest", "B", None, "bytes of the smallest message", brief=False, type="Int64"),
    MetricColumn("first_line", meaning="line of the first call", brief=False, type="Int64"),
)  # fmt: skip
_KEYS = ("group", "group_description", "group_ranks", "dtype")
_C10D = lazy_pattern(r"c10d::_?(\w+?)_*$")  # operators of torch.distributed, where the trace describes no message
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
def collective_volume(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Calls and bytes of the collectives of each trace by operation, group and element type, the most bytes first."""
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
    for file, events in tables.arrow_by_file("events", where, *columns):
        chosen = _messages(rows_from_arrow(events))
        if chosen is not None:
            table = _volumes(*chosen, _bytes(chosen[0], file, tables))
            parts.append(table.assign(run=file[0]))
    return parts


def _messages(rows: Rows) -> tuple[Rows, Keys, list[str]] | None:
    """Return the events that are collectives, each once, their operations as codes, and the words of these.

    None if there are no collectives.
    """
    codes, words = rows.codes("collective")
    described = codes >= 0
    if described.any():
        kernels = described & rows.one_of("kind", ["kernel"])
        chosen = kernels if kernels.any() else described
        return rows.where(chosen), codes[chosen], words
    codes, words = rows.codes("name")
    matches = [_C10D.match(word) for word in words]
    operation_names = [match[1] if match is not None and match[1] not in _NO_MESSAGE else None for match in matches]
    operations = list(dict.fromkeys(word for word in operation_names if word is not None))
    operation = np.array(
        [*(operations.index(word) if word is not None else -1 for word in operation_names), -1], np.int64
    )
    row_operations = operation[codes]
    return (rows.where(row_operations >= 0), row_operations[row_operations >= 0], operations) if operations else None


def _bytes(rows: Rows, file: tuple[str, int], tables: Tables) -> Ints:
    """Return the bytes of messages; if an event of a file has none, the bytes of the operator on its line."""
    sizes: Ints = rows["bytes"]
    if (sizes != NULL).all():
        return sizes
    by_file = cached(
        tables,
        "operators by file",  # including operators of another recording
        lambda: {(each.run, each.part): each for each in operators_by_file(tables)},
    )
    if file not in by_file:
        return sizes
    operators = by_file[file]
    order = np.argsort(operators.lines)
    found = np.minimum(np.searchsorted(operators.lines[order], rows["line"]), len(order) - 1)
    same = operators.lines[order][found] == rows["line"]
    return np.where((sizes == NULL) & same, operators.bytes[order][found], sizes)


def _volumes(rows: Rows, operation: Keys, operations: list[str], sizes: Ints) -> pd.DataFrame:
    """The volumes of one file."""
    import pandas as pd

    words = {"op": (operation, operations)} | {name: rows.codes(name) for name in _KEYS}
    groups = groups_of(rows["rank"], *(codes for codes, _ in words.values()), rows["ranks"])
    known = sizes != NULL
    known_groups, sizes = groups.inverse[known], sizes[known]
    total, largest, smallest = (np.full(len(groups.first), start) for start in (0, NULL, np.iinfo(np.int64).max))
    np.add.at(total, known_groups, sizes)
    np.maximum.at(largest, known_groups, sizes)
    np.minimum.at(smallest, known_groups, sizes)
    unknown = largest == NULL  # of all calls of the group
    order = np.lexsort((groups.first, -total, unknown))
    first = groups.first[order]
    columns: dict[str, object] = {
        name: np.array([*texts, None], object)[codes[first]] for name, (codes, texts) in words.items()
    }
    columns |= {"calls": groups.sizes[order], "first_line": rows["line"][first]}
    for name, values in (("bytes", total), ("largest", largest), ("smallest", smallest)):
        columns[name] = pd.arrays.IntegerArray(values[order], unknown[order])
    for name in ("rank", "ranks"):
        numbers = rows[name][first]
        columns[name] = pd.arrays.IntegerArray(numbers, numbers == NULL)
    return pd.DataFrame(columns)
