"""Readings of counters in an export of Nsight Systems: metrics of GPUs and of the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.readers.databases.sqlite import Database, columns_of, integers, odd_rows, query_of, reals
from perflog.readers.events.event_columns import MISSING, EventColumns, distinct_values, durations_between
from perflog.readers.events.string_interning import Interners
from perflog.readers.nsys.session import Session
from perflog.readers.nsys.tables import COUNTER_TABLES

if TYPE_CHECKING:
    import pyarrow as pa

# A reading names its source and its counter by two numbers each; these are the columns that hold them.
COUNTER_NUMBERS = {
    "start": ("start", "timestamp"),
    "end": ("end",),
    "source": ("typeId", "globalId"),
    "port": ("portId",),
    "list": ("typeId", "metricsListId"),
    "counter": ("metricId", "metricsIdx"),
}

_Meaning = Mapping[tuple[int, int], tuple[str, str]]  # of list and counter: name and unit


def counter_tables(db: Database) -> list[str]:
    """Return the tables of an export that hold readings."""
    return [name for name in COUNTER_TABLES if {"value"} <= set(db.tables.get(name, ()))]


class CounterReader:
    """Reads the readings of an export as columns of table `counters`, apart from their positions."""

    def __init__(self, db: Database, session: Session, interners: Interners) -> None:
        self.db, self.session, self.interners = db, session, interners
        self._meanings: dict[str, _Meaning] = {
            "GPU_METRICS": self._names("TARGET_INFO_GPU_METRICS", "typeId", "metricId", "metricName"),
            "SOC_METRICS": self._names("TARGET_INFO_SOC_METRICS", "typeId", "metricId", "metricName"),
            "NET_NIC_METRIC": self._names("TARGET_INFO_NETWORK_METRICS", "metricsListId", "metricsIdx", "name", "unit"),
        }

    def batches(self) -> Iterator[tuple[str, EventColumns, Mask]]:
        """Give the readings of each table in batches, each with the name of its table, and flags of its odd rows."""
        queries = [(name, self._query(name)) for name in counter_tables(self.db)]
        for name, batch in self.db.batches(queries):
            yield name, self._columns(name, batch), odd_rows(batch)

    def _query(self, name: str) -> str:
        present = self.db.tables[name]
        columns = {number: next((c for c in ways if c in present), None) for number, ways in COUNTER_NUMBERS.items()}
        return query_of(name, {n: column for n, column in columns.items() if column} | {"value": "value"})

    def _columns(self, name: str, batch: pa.RecordBatch) -> EventColumns:
        columns, count = columns_of(batch), batch.num_rows
        numbers = {n: integers(columns.get(n), count) for n in COUNTER_NUMBERS}
        meanings = self._meanings[name]
        counters, counter_index = _distinct_pairs(numbers["list"], numbers["counter"])
        parts, part_index = _distinct_pairs(numbers["source"], numbers["port"])
        described = [meanings.get(pair, (f"counter {pair[1]}", "")) for pair in counters]
        gpus = [self._gpu(name, source) for source, _ in parts]
        names = ["" if gpu is None else self.session.gpu_names.get(gpu, "") for gpu in gpus]
        return {
            "name": self._codes("name", [text for text, _ in described])[counter_index],
            "unit": self._codes("unit", [unit for _, unit in described])[counter_index],
            "subject": self._codes("subject", [self._subject(name, *part) for part in parts])[part_index],
            "device": np.array([MISSING if gpu is None else gpu for gpu in gpus], np.int64)[part_index],
            "device_name": self._codes("device_name", names)[part_index],
            "start": numbers["start"],
            "duration": durations_between(numbers["start"], numbers["end"]),
            "value": reals(columns.get("value"), count),
        }

    def _gpu(self, table: str, source: int) -> int | None:
        return self.session.gpu_of_metrics(source) if table == "GPU_METRICS" else None

    def _subject(self, table: str, source: int, port: int) -> str:
        """Return what was counted: nothing for a GPU that column `device` names."""
        if table == "NET_NIC_METRIC":
            nic = self._nics.get(source, f"network interface {source}")
            return nic if port == MISSING else f"{nic} port {port}"
        return "" if self._gpu(table, source) is not None else self._type_names(table).get(source, "")

    @cached_property
    def _nics(self) -> dict[int, str]:
        """Names of network interfaces by the number that their readings have."""
        tables = self.db.tables
        if not {"nicId", "globalId"} <= set(tables.get("NIC_ID_MAP", ())):
            return {}
        if not {"nicId", "name"} <= set(tables.get("TARGET_INFO_NIC_INFO", ())):
            return {}
        query = "SELECT m.globalId, n.name FROM NIC_ID_MAP m JOIN TARGET_INFO_NIC_INFO n ON n.nicId = m.nicId"
        return {number: str(name) for number, name in self.db.rows(query)}

    def _type_names(self, table: str) -> dict[int, str]:
        info = f"TARGET_INFO_{table}"
        if not {"typeId", "typeName"} <= set(self.db.tables.get(info, ())):
            return {}
        return {number: str(name) for number, name in self.db.rows(f"SELECT typeId, typeName FROM {info}")}

    def _names(self, table: str, list_column: str, counter_column: str, *texts: str) -> _Meaning:
        present = set(self.db.tables.get(table, ()))
        if not {counter_column, texts[0]} <= present:
            return {}
        wanted = [c if c in present else "NULL" for c in (list_column, counter_column, *texts)]
        rows: list[tuple[Any, ...]] = self.db.rows(f"SELECT {', '.join(wanted)} FROM {table}")
        return {(row[0], row[1]): (str(row[2]), "".join(str(text or "") for text in row[3:])) for row in rows}

    def _codes(self, column: str, texts: list[str]) -> Ints:
        return np.array([self.interners[column].code(text) if text else -1 for text in texts], np.int64)


def _distinct_pairs(first: Ints, second: Ints) -> tuple[list[tuple[int, int]], Ints]:
    """Return the pairs that two columns may form, and for each row the index of its pair."""
    one, one_index = distinct_values(first)
    other, other_index = distinct_values(second)
    return [(a, b) for a in one.tolist() for b in other.tolist()], one_index * len(other) + other_index
