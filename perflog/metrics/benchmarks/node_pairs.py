"""Node pairs: the bandwidth between each two nodes of a cluster, and the nodes and pairs that are slow."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.row_groups import split
from perflog.metrics.run_tables import Tables
from perflog.statistics.samples import OUTLIER, median, modified_z_scores
from perflog.tables.columns import Rows
from perflog.tables.row_order import natural_sort_key

_SLOW = 0.9  # of the median: links of one cluster differ by some percent
_ENOUGH_PAIRS = 5  # from which on a slow pair can be detected
_ENOUGH_OF_NODE = 3  # pairs of a node: with fewer, one slow partner decides

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="node: median of its pairs; pair: its runs"),
    MetricColumn("op", meaning="collective operation"),
    MetricColumn("ranks", meaning="number of ranks of a pair", type="Int64"),
    MetricColumn("size", "B", None, "largest of the messages that most pairs measured", type="Int64"),
    MetricColumn("node", meaning="node; of a pair the first one"),
    MetricColumn("other", meaning="second node of a pair; of a node its partner in its slowest pair"),
    MetricColumn("pairs", meaning="number of measured pairs of a node", type="Int64"),
    MetricColumn("busbw", "GB/s", "higher", "bus bandwidth, mean of both buffers; of a node median over its pairs"),
    MetricColumn("ratio", "1", "higher", "busbw / median over all pairs; of a node / median over all nodes"),
    MetricColumn(
        "slow",
        meaning=f"below {_SLOW} of this median, and an outlier (modified z < -{OUTLIER}); null: too few pairs",
        type="boolean",
    ),
    MetricColumn("lowest", "GB/s", "higher", "of a node: bus bandwidth of its slowest pair"),
    MetricColumn("dtype", meaning="element type", brief=False),
)


@metric(
    title="node pairs",
    needs=("collectives",),
    columns=_COLUMNS,
    main="busbw",
    formula="bandwidth of a node = median over its pairs; ratio = bandwidth / median of all nodes or pairs",
    source="bandwidths as printed; modified z: Iglewicz and Hoaglin 1993",
)
def node_pairs(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Bus bandwidth of each node and each pair of nodes, of runs that measure a collective between two nodes.

    Nodes and pairs are in the order of their bandwidth, the slowest first, for each operation and number of ranks. A
    node is slow if most of its pairs are: one slow partner does not make it slow. Runs on one node, or on more than
    two, are left out.
    """
    rows = tables.rows("collectives")
    pairs = {run: pair for run, config in tables.rows("runs").records("run", "config") if (pair := _nodes(config))}
    rows = rows.where(rows.one_of("run", pairs) & rows.known("bytes", "busbw_gbps"))
    table: list[dict[str, object]] = []
    for alike in split(rows, "op", "ranks", "dtype"):
        columns = next(alike.dicts("op", "ranks", "dtype"))
        table += [{**columns, **row} for row in _group_rows(alike, pairs)]
    return table


def _nodes(config: str | None) -> tuple[str, str] | None:
    """The two nodes of a run, in their natural order; None if it has one, more, or does not print them."""
    hosts = json.loads(config or "{}").get("host")
    if not isinstance(hosts, list) or len(set(hosts)) != 2:
        return None
    first, second = sorted(set(map(str, hosts)), key=natural_sort_key)
    return first, second


def _group_rows(rows: Rows, pairs: Mapping[str, tuple[str, str]]) -> Iterator[dict[str, object]]:
    """Rows of the nodes, then of the pairs, of one operation, at the largest of the messages that most pairs have.

    `pairs`: the nodes of each run.
    """
    pairs_of_size: dict[int, set[tuple[str, str]]] = {}
    for run, size in rows.records("run", "bytes"):
        pairs_of_size.setdefault(size, set()).add(pairs[run])
    _, size = max((len(measured_pairs), size) for size, measured_pairs in pairs_of_size.items())
    measured: dict[tuple[str, str], list[float]] = {}
    runs: dict[tuple[str, str], set[str]] = {}
    for run, value in rows.where(rows["bytes"] == size).records("run", "busbw_gbps"):
        measured.setdefault(pairs[run], []).append(value)
        runs.setdefault(pairs[run], set()).add(run)
    busbw = {pair: math.fsum(values) / len(values) for pair, values in measured.items()}
    nodes = sorted({node for pair in busbw for node in pair}, key=natural_sort_key)
    pairs_by_node = {node: {pair: value for pair, value in busbw.items() if node in pair} for node in nodes}
    medians = {node: median(np.array(list(node_pairs.values()))) for node, node_pairs in pairs_by_node.items()}
    is_enough = len(busbw) >= _ENOUGH_PAIRS
    for node, value, ratio, slow in _judged(medians):
        slowest = min(pairs_by_node[node], key=lambda pair: busbw[pair])
        yield {
            "of": "node", "size": size, "node": node, "pairs": len(pairs_by_node[node]), "busbw": value, "ratio": ratio,
            "slow": slow if is_enough and len(pairs_by_node[node]) >= _ENOUGH_OF_NODE else None,
            "other": slowest[slowest[0] == node], "lowest": busbw[slowest],
        }  # fmt: skip
    for pair, value, ratio, slow in _judged(busbw):
        yield {
            "of": "pair", "size": size, "node": pair[0], "other": pair[1], "busbw": value, "ratio": ratio,
            "slow": slow if is_enough else None, "run": next(iter(runs[pair])) if len(runs[pair]) == 1 else None,
        }  # fmt: skip


def _judged(values: Mapping[Any, float]) -> list[tuple[Any, float, float, bool]]:
    """Each name with its value, the ratio to the median, and whether it is slow; the slowest first."""
    all_values: Floats = np.array(list(values.values()))
    ratios = all_values / median(all_values)
    slow = (ratios < _SLOW) & (modified_z_scores(all_values) < -OUTLIER)
    rows = zip(values, all_values.tolist(), ratios.tolist(), slow.tolist(), strict=True)
    return sorted(rows, key=lambda row: row[1])
