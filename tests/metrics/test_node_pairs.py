"""Metric `node_pairs`: slow nodes and slow pairs among benchmarks between two nodes each."""

from __future__ import annotations

import json
from itertools import combinations, islice
from pathlib import Path
from typing import Any, cast

import pandas as pd
from support.metrics_logs import by_hand, row, rows
from support.pair_logs import campaign, pairs

import perflog
from perflog.metrics import node_pairs
from perflog.metrics.benchmarks.node_pairs import _group_rows
from perflog.tables.columns import rows_from_frame


def test_a_slow_pair_does_not_make_its_nodes_slow(tmp_path: Path) -> None:
    log = campaign(tmp_path, pairs(5) | {("n2", "n4"): 5.8})
    table = node_pairs(log)
    slow = row(table, slow=True)
    assert (slow["of"], slow["node"], slow["other"], slow["busbw"]) == ("pair", "n2", "n4", 5.8)
    assert slow["size"] == 4194304 and slow["run"] is not None
    node = row(table, of="node", node="n2")
    assert (node["pairs"], node["other"], node["lowest"]) == (4, "n4", 5.8)
    seen = perflog.overview(log)
    assert seen.reasons[0].startswith("Slow pair n2 - n4: 5.8 GB/s with 2 ranks, ")
    assert any(command.endswith(" node_pairs") for command in seen.next)


def test_a_slow_node_has_slow_pairs(tmp_path: Path) -> None:
    slow = {pair: 5.8 if "n3" in pair else value for pair, value in pairs(6).items()}
    log = campaign(tmp_path, slow)
    table = node_pairs(log)
    assert [r["node"] for r in rows(table, of="node", slow=True)] == ["n3"]
    assert all("n3" in (r["node"], r["other"]) for r in rows(table, of="pair", slow=True))
    (first, *_) = perflog.overview(log).reasons
    assert first.startswith("Slow node n3: 5.8 GB/s with 2 ranks, ") and first.endswith("over 5 pairs.")


def test_few_pairs_tell_nothing_and_the_size_is_that_of_all(tmp_path: Path) -> None:
    table = node_pairs(campaign(tmp_path, pairs(3), without_large="n1"))
    assert table["slow"].isna().all() and set(table["size"]) == {1048576}


def test_a_pair_of_two_runs_names_neither_and_each_operation_has_rows() -> None:
    measured = [("r1", "ab", "all_reduce", 4.0), ("r2", "ab", "all_reduce", 6.0), ("r3", "ac", "all_gather", 3.0)]
    made = by_hand("collectives", [{"op": op, "ranks": 2, "bytes": 8, "busbw_gbps": bw} for _, _, op, bw in measured])
    collectives = made["collectives"].assign(run=[run for run, *_ in measured])
    configs = [json.dumps({"host": list(pair)}) for _, pair, *_ in measured]
    runs = pd.concat([made["runs"]] * 3).assign(run=["r1", "r2", "r3"], config=configs)
    found = rows(node_pairs({"runs": runs, "collectives": collectives}), of="pair")
    assert [(r["op"], r["node"], r["other"], r["busbw"], r["run"]) for r in found] == [
        ("all_reduce", "a", "b", 5.0, None), ("all_gather", "a", "c", 3.0, "r3"),
    ]  # fmt: skip


def test_all_columns_of_the_pairs_of_four_nodes() -> None:
    """The median node has 9.8 GB/s, the median pair 9.65: only the pair of a and b is slow."""
    measured = {"ab": 4.0, "ac": 9.0, "bc": 10.0, "ad": 9.5, "bd": 10.0, "cd": 9.8}
    one = {"op": "all_reduce", "dtype": "float", "ranks": 2, "bytes": 8}
    made = by_hand("collectives", [one | {"busbw_gbps": busbw} for busbw in measured.values()])
    configs = [json.dumps({"host": list(pair)}) for pair in measured]
    runs = pd.concat([made["runs"]] * 6).assign(run=list(measured), config=configs)
    same: dict[str, Any] = {"label": None, "op": "all_reduce", "dtype": "float", "ranks": 2, "size": 8}
    assert rows(node_pairs({"runs": runs, "collectives": made["collectives"].assign(run=list(measured))})) == [
        *(
            same | {"run": None, "of": "node", "node": node, "other": other, "pairs": 3, "busbw": busbw,
                    "ratio": busbw / 9.8, "slow": False, "lowest": lowest}
            for node, other, busbw, lowest in (("a", "b", 9.0, 4.0), ("c", "a", 9.8, 9.0), ("d", "a", 9.8, 9.5),
                                               ("b", "a", 10.0, 4.0))
        ),
        *(
            same | {"run": pair, "of": "pair", "node": pair[0], "other": pair[1], "pairs": None,
                    "busbw": measured[pair], "ratio": measured[pair] / 9.65, "slow": pair == "ab", "lowest": None}
            for pair in ("ab", "ac", "ad", "cd", "bc", "bd")
        ),
    ]  # fmt: skip


def test_a_node_of_few_pairs_is_not_judged(tmp_path: Path) -> None:
    """Node a has three slow pairs, b has two; without enough pairs in all, no node is judged."""

    def slow(measured: dict[tuple[str, str], float]) -> dict[str, bool | None]:
        rows = rows_from_frame(pd.DataFrame(
            [{"run": f"{a}{b}", "bytes": 8, "busbw_gbps": value} for (a, b), value in measured.items()]
        ), "collectives")  # fmt: skip
        found = _group_rows(rows, {f"{a}{b}": (a, b) for a, b in measured})
        return {str(row["node"]): cast("bool | None", row["slow"]) for row in found if row["of"] == "node"}

    usual = {pair: 13.5 + 0.01 * k for k, pair in enumerate(combinations("cdefg", 2))}
    of_a = {("a", other): 5.0 for other in "cde"}
    assert slow(usual | of_a) == {"a": True, **dict.fromkeys("cdefg", False)}
    assert slow(usual | {("b", other): 5.0 for other in "fg"})["b"] is None
    assert set(slow(dict(islice(usual.items(), 1)) | of_a).values()) == {None}
