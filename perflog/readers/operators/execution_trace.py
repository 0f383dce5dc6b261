"""PyTorch execution traces: the operators that a process ran, with shapes, types, tree and collectives, without times.

A file is an object in JSON with a list of nodes: operators and ranges, each written when it ends, so children are
before their parents. Schemas 1.0.x keep the fields of a node beside each other; 1.1.x keeps them in `attrs`.
Source: torch/csrc/profiler/standalone/execution_trace_observer.cpp.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.chrome.boundaries import scan_elements
from perflog.readers.chrome.json_repair import repaired_variants
from perflog.readers.events.element_types import element_bytes
from perflog.readers.events.event_columns import KIND_CODE, MISSING, EventColumns
from perflog.readers.events.event_context import STEP_NAME
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter, event_rows
from perflog.readers.events.spill_file import decompressed_path
from perflog.readers.events.string_interning import Interners, new_interners
from perflog.readers.interface import RankFileReader, RankInfo, ReadOptions
from perflog.readers.odd_numbers import whole
from perflog.readers.rank_files import ranks_of_files
from perflog.tables.sink import IngestResult, Sink

_START = lazy_pattern(rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"[0-9]+\.[^"]*"[^\[]*?"nodes"\s*:\s*\[')
_HEAD = 1 << 12
_BOM = b"\xef\xbb\xbf"
_SAMPLE_CHARS = 200
_BATCH = 1 << 12  # nodes that are in memory as objects
_LARGEST_INT32 = (1 << 31) - 1

_STRUCTURE = lazy_pattern(r"\[pytorch\|profiler\|execution_(?:trace|graph)\|(?:process|thread)\]")
_GROUPS = "## process_group:init ##"
_SCOPES = (
    "function", "backward_function", "torchscript_function", "kernel_function_dtype", "custom_class", "build_feature",
    "lite_interpreter", "user_scope", "static_runtime_op", "static_runtime_model",
)  # fmt: skip
"""Scopes of recorded functions by number: enum RecordScope of ATen/record_function.h."""
_USER_SCOPE = _SCOPES.index("user_scope")
_TEXTS = ("name", "category", "process", "thread", "shapes", "collective", "group", "group_description", "group_ranks",
          "dtype", "in_split", "out_split", "range")  # fmt: skip
_NUMBERS = ("place", "bytes", "ranks", "step", "record")
_TENSOR = 6  # parts of a tensor among the values
_LARGEST_GROUP = 1 << 16  # ranks that are named

_JOINS = "joins nodes of the trace"
_VALUES = "values and types of inputs and outputs: columns `shapes` and `bytes` have the sizes of an operator's tensors"
_DROPPED = {
    **dict.fromkeys(("id", "ctrl_deps", "parent", "fw_parent", "seq_id", "fw_tid"), _JOINS),
    **dict.fromkeys(
        ("inputs.values", "inputs.types", "inputs.strides", "outputs.values", "outputs.shapes", "outputs.types",
         "outputs.strides", "tensor_range"),
        _VALUES,
    ),
    "op_schema": "the operator's declaration, the same in each of its calls",
    **dict.fromkeys(("kernel_backend", "kernel_file"), "where the operator's kernel was compiled from"),
    "global_rank_stride": "with `global_rank_start` it gives column `group_ranks`",
}  # fmt: skip
_TAKEN = frozenset(
    (
        "name", "scope", "tid", "rf_id", "inputs.shapes", "collective_name", "dtype", "in_msg_nelems", "out_msg_nelems",
        "in_split_size", "out_split_size", "global_rank_start", "pg_name", "pg_desc", "pg_size",
    )
)  # fmt: skip
_OLD_LISTS = {
    "inputs": "inputs.values", "input_shapes": "inputs.shapes", "input_types": "inputs.types",
    "input_strides": "inputs.strides", "outputs": "outputs.values", "output_shapes": "outputs.shapes",
    "output_types": "outputs.types", "output_strides": "outputs.strides",
}  # fmt: skip
"""Names of lists in schemas 1.0.x -> names in 1.1.x, with a dot between object and key."""


class ExecutionTraceReader(RankFileReader):
    """Reads execution traces of PyTorch."""

    name = "execution_trace"
    title = "execution trace of PyTorch: operators with shapes and collectives, without times"
    source = "torch.profiler.ExecutionTraceObserver, schemas 1.0 and 1.1; traces of several ranks are one run"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins as such a trace does: a schema, and then its nodes."""
        return _START.match(source.first_bytes(_HEAD)) is not None

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the header of the trace."""
        match = _START.match(source.first_bytes(_HEAD))
        return [(1, "header", " ".join(match[0].decode("utf-8", "replace").split()))] if match else []

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the traces of a job, one for each rank, into a sink."""
        ranks = ranks_of_files([(part.name, RankInfo()) for part in source.parts])
        interners, last = new_interners(), 0
        files: list[dict[str, object]] = []
        sizes: set[int] = set()
        warnings: list[str] = []
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            for number, (part, (rank, rule)) in enumerate(zip(source.parts, ranks, strict=True)):
                with _open_document(part) as document:
                    nodes = _Nodes(interners, document.header.get("pid"))
                    for text in document.nodes:
                        nodes.add(text)
                    if document.remainder:
                        nodes.add_damaged("cut node", document.remainder)
                        warnings.append(f"{part.name}: the trace has no end; its last node is cut")
                    nodes.finish()
                    files.append({"name": os.path.basename(part.name), "rank": rank, **document.header})
                origin = EventOrigin(writer.run, number, rank, rule)
                for rows in nodes.batches():
                    writer.write_events(event_rows(origin, rows, interners))
                writer.write_dicts("values", list(nodes.group_rows(origin)))
                writer.write_account(number, nodes.account)
                sizes |= nodes.world_sizes
                last = max(last, nodes.count)
                options.done(part)
            if not last:
                help = "start the observer before the steps that it shall record"
                raise InputError("no nodes in this execution trace", source.name, help)
            size = sizes.pop() if len(sizes) == 1 else None
            ingested = writer.write_run(options.label, last, {"clock": "trace", "files": files}, world_size=size)
        ingested.warnings += [*warnings, *(warning for part in source.parts for warning in part.warnings)]
        return ingested


# --- the file -------------------------------------------------------------------------------------------------------


class _Document(Struct):
    """The JSON of nodes, other keys of the document, and what is after the last whole node of a cut file."""

    header: Mapping[str, Any]
    nodes: Sequence[Any]
    remainder: bytes = b""


class _WholeDocument(msgspec.Struct):
    schema: Any
    nodes: list[msgspec.Raw]
    pid: Any = None
    time: Any = None
    start_ts: Any = None
    finish_ts: Any = None


_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@contextmanager
def _open_document(source: Source) -> Iterator[_Document]:
    """Give a file, which is mapped into memory. The observer writes no end if its process is killed."""
    with decompressed_path(source) as path, open(path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        try:
            whole_file = msgspec.json.decode(view[3:] if bytes(view[:3]) == _BOM else view, type=_WholeDocument)
            keys = ("schema", "pid", "time", "start_ts", "finish_ts")
            yield _Document({key: getattr(whole_file, key) for key in keys}, whole_file.nodes)
        except _ERRORS:
            yield _damaged_document(view)


def _damaged_document(view: memoryview) -> _Document:
    """Return what a document that is cut, or has damaged nodes, holds."""
    match = _START.match(bytes(view[:_HEAD]))
    begin = match.end() if match else len(view)
    body = view[begin:]
    elements = scan_elements(body)
    spans = zip(elements.starts.tolist(), elements.ends.tolist(), strict=True)
    remainder = b"" if elements.close >= 0 else bytes(body[elements.remainder :]).strip(b" \t\r\n,")
    texts = [body[start:end] for start, end in spans]
    head = match[0].rpartition(b",")[0].removeprefix(_BOM) + b"}" if match else b"{}"
    try:
        header = json.loads(head)
    except ValueError:
        header = {}
    return _Document(header if isinstance(header, dict) else {}, texts, remainder)


# --- nodes ----------------------------------------------------------------------------------------------------------


class _Columns(Struct):
    """Columns of nodes that are events; of strings the codes."""

    kind: list[int] = field(default_factory=list)
    values: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in (*_TEXTS, *_NUMBERS)})


class _Nodes:
    """The nodes of one file. `world_sizes`: sizes of the group of all ranks, as the trace states them."""

    def __init__(self, interners: Interners, process: object) -> None:
        self.account = EventAccount()
        self.count = 0
        self._process = process
        self.world_sizes: set[int] = set()
        self._interners = interners
        self._columns = _Columns()
        self._index: dict[int, int] = {}  # id of a node -> index among the nodes
        self._names: list[int] = []
        self._is_range: list[bool] = []
        self._parents: list[int | None] = []
        self._forward_parents: list[int | None] = []
        self._rows: list[int] = []  # index of the node of each event
        self._groups: dict[str, tuple[int, dict[str, object]]] = {}  # by name: number of its node, description
        # Events that name a group: row, group, first rank, stride. A later node may describe the group.
        self._pending_groups: list[tuple[int, str, int, int]] = []

    def add(self, text: Any) -> None:
        """Add the JSON of a node."""
        node = _decoded(text)
        if node is None:
            self.add_damaged("damaged node", bytes(text))
            return
        self.count += 1
        fields = self._fields(node)
        name = str(fields.get("name"))
        status, shape, is_event = "read", "operator", False
        if _STRUCTURE.fullmatch(name):
            status, shape = "context", "process or thread"
        elif name == _GROUPS:
            status, shape = self._add_groups(fields.get("inputs.values"))
        else:
            is_event = True
            scope = whole(fields.get("scope"))
            shape = "range" if scope == _USER_SCOPE else "collective" if "collective_name" in fields else shape
        sample = ""
        if (status, shape) not in self.account.shapes:
            sample = " ".join(bytes(text).decode("utf-8", "replace").split())[:_SAMPLE_CHARS]
        self.account.add(status, shape, 1, self.count, sample)
        self._count_figures(fields)
        self._add_to_tree(fields, name, shape == "range")
        if is_event:
            self._add_event(fields, name, shape)

    def add_damaged(self, shape: str, text: bytes) -> None:
        """Count a node that cannot be read."""
        self.count += 1
        self.account.add("unread", shape, 1, self.count, text[:_SAMPLE_CHARS].decode("utf-8", "replace"))

    def finish(self) -> None:
        """Fill in steps, ranges and the ranks of groups, when all nodes are known."""
        columns = self._columns.values
        context = self._contexts()
        for node in self._rows:
            step, range_code = context[node]
            forward = self._forward_parents[node]
            if step is None and forward is not None and (index := self._index.get(forward)) is not None:
                own = self._step_number(index)
                step = context[index][0] if own is None else own
            columns["step"].append(MISSING if step is None else step)
            columns["range"].append(range_code)
        for row, group, start, stride in self._pending_groups:
            size = columns["ranks"][row]
            ranks = self._groups.get(group, (0, {}))[1].get("ranks") or _strided(start, stride, size)
            if ranks:
                columns["group_ranks"][row] = self._interners["group_ranks"].code(str(ranks))

    def batches(self) -> Iterator[EventColumns]:
        """Give the events as columns."""
        columns = self._columns
        for begin in range(0, len(columns.kind), _BATCH):
            end = begin + _BATCH
            rows: EventColumns = {"kind": np.array(columns.kind[begin:end], np.int8)}
            rows |= {name: np.array(columns.values[name][begin:end], np.int32) for name in _TEXTS}
            yield rows | {name: np.array(columns.values[name][begin:end], np.int64) for name in _NUMBERS}

    def group_rows(self, origin: EventOrigin) -> Iterator[dict[str, object]]:
        """Give a row of table `values` for each process group: its purpose and ranks, as JSON."""
        for name, (place, group) in self._groups.items():
            yield {
                "run": origin.run, "line": place, "part": origin.part, "rank": origin.rank, "rank_by": origin.rank_by,
                "key": f"process_group.{name}", "text": json.dumps(group),
            }  # fmt: skip

    def _fields(self, node: Mapping[str, object]) -> dict[str, object]:
        """Return the fields of a node by the names of schema 1.1, fields of its objects with a dot."""
        fields: dict[str, object] = {}
        for key, value in node.items():
            if key == "attrs" and isinstance(value, list):
                fields |= {str(a.get("name")): a.get("value") for a in value if isinstance(a, dict)}
            elif key in ("inputs", "outputs") and isinstance(value, dict):
                fields |= {f"{key}.{inner}": part for inner, part in value.items()}
            else:
                fields[_OLD_LISTS.get(key, key)] = value
        return fields

    def _count_figures(self, fields: Mapping[str, object]) -> None:
        """Count the fields of a node: stored, dropped for a reason, or unread. Empty ones say nothing."""
        for name, value in fields.items():
            if value in ("", None, []) or name == "name":
                continue
            figures = self.account.figures_of(name, self.count, because=_DROPPED.get(name, ""))
            figures.stored += name in _TAKEN
            figures.dropped += name in _DROPPED
            figures.unread += name not in _TAKEN and name not in _DROPPED

    def _add_to_tree(self, fields: Mapping[str, object], name: str, is_range: bool) -> None:
        number, parent = whole(fields.get("id")), whole(fields.get("ctrl_deps", fields.get("parent")))
        forward = whole(fields.get("fw_parent"))
        if number is not None:
            self._index[number] = len(self._names)
        self._names.append(self._interners["name"].code(name))
        self._is_range.append(is_range)
        self._parents.append(None if parent == number else parent)
        self._forward_parents.append(forward or None)

    def _add_event(self, fields: Mapping[str, object], name: str, shape: str) -> None:
        columns, row = self._columns.values, len(self._columns.kind)
        scope = whole(fields.get("scope"))
        self._rows.append(len(self._names) - 1)
        self._columns.kind.append(-1 if scope is None else KIND_CODE["range" if shape == "range" else "cpu"])
        texts: dict[str, object] = {
            "name": name,
            "category": _SCOPES[scope] if scope is not None and 0 <= scope < len(_SCOPES) else None,
            "process": self._process, "thread": whole(fields.get("tid")),
            "shapes": _shapes(fields.get("inputs.shapes")),
            "collective": fields.get("collective_name"), "group": fields.get("pg_name"),
            "group_description": fields.get("pg_desc"), "dtype": fields.get("dtype"),
            "in_split": fields.get("in_split_size"), "out_split": fields.get("out_split_size"),
        }  # fmt: skip
        for column in _TEXTS:
            value = texts.get(column)
            if column != "range":
                known = value is not None and value != ""
                columns[column].append(self._interners[column].code(str(value)) if known else -1)
        size = whole(fields.get("pg_size"))
        columns["place"].append(self.count)
        columns["ranks"].append(MISSING if size is None else size)
        columns["record"].append(_positive(fields.get("rf_id")))
        columns["bytes"].append(_bytes(fields) if "collective_name" in fields else _tensor_bytes(fields))
        if "pg_name" in fields:
            start, stride = (whole(fields.get(f"global_rank_{key}")) for key in ("start", "stride"))
            first, distance = (-1 if number is None else number for number in (start, stride))
            self._pending_groups.append((row, str(fields["pg_name"]), first, distance))

    def _add_groups(self, values: Any) -> tuple[str, str]:
        """Add the process groups that a node lists as JSON in a string. Return the status of the node and its shape."""
        try:
            (text,) = values
            groups = json.loads(text)
            for group in groups:
                ranks = [rank for rank in group["ranks"] if whole(rank) is not None]
                described = {"purpose": group.get("pg_desc"), "ranks": ranks}
                self._groups.setdefault(str(group["pg_name"]), (self.count, described))
                size = whole(group.get("group_size"))
                if group.get("pg_desc") == "default_pg" and size is not None and 0 < size <= _LARGEST_INT32:
                    self.world_sizes.add(size)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return "unread", "process groups that are no list"
        return "read", "process groups"

    def _contexts(self) -> list[tuple[int | None, int]]:
        """Return the step and the code of the innermost range in which each node lies; None and -1 if there is none."""
        known: dict[int, tuple[int | None, int]] = {}
        for first in range(len(self._names)):
            path, node = [], first
            on_path: set[int] = set()
            while node not in known:
                on_path.add(node)
                path.append(node)
                number = self._parents[node]
                parent = None if number is None else self._index.get(number)
                if parent is None or parent in on_path:  # the root; a damaged tree may have a circle
                    known[node] = None, -1
                    break
                node = parent
            for child in reversed(path):
                if child not in known:
                    known[child] = self._context_inside(node, known[node])
                node = child
        return [known[node] for node in range(len(self._names))]

    def _context_inside(self, node: int, around: tuple[int | None, int]) -> tuple[int | None, int]:
        step = self._step_number(node)
        if step is not None:
            return step, around[1]
        if self._is_range[node]:
            return around[0], self._interners["range"].code(self._interners["name"].texts[self._names[node]])
        return around

    def _step_number(self, node: int) -> int | None:
        match = STEP_NAME.match(self._interners["name"].texts[self._names[node]])
        return int(match[1]) if match else None


def _decoded(text: Any) -> dict[str, object] | None:
    """Return a node; None for what cannot be decoded, or is no object."""
    for variant in repaired_variants(bytes(text)):
        try:
            node = msgspec.json.decode(variant)
            return node if isinstance(node, dict) else None
        except _ERRORS:
            continue
    return None


def _shapes(shapes: object) -> str | None:
    """Return the shapes of inputs as Kineto prints them."""
    return json.dumps(shapes) if isinstance(shapes, list) and shapes else None


def _bytes(fields: Mapping[str, object]) -> int:
    """Return the bytes of the larger buffer of a collective; MISSING for a type that is not known."""
    counts = [whole(fields.get(key)) for key in ("in_msg_nelems", "out_msg_nelems")]
    size = element_bytes(str(fields.get("dtype")))
    known = [count for count in counts if count is not None and count >= 0]
    total = whole(max(known) * size) if known and size is not None else None
    return MISSING if total is None else total


def _positive(value: object) -> int:
    number = whole(value)
    return number if number is not None and number > 0 else MISSING


def _tensor_bytes(fields: Mapping[str, object]) -> int:
    """Return the bytes of the tensors that an operator takes and returns, each once; MISSING where there is none."""
    sizes: dict[Any, int] = {}
    pending = [fields.get("inputs.values"), fields.get("outputs.values")]
    while pending:
        value = pending.pop()
        if not isinstance(value, list):
            continue
        tensor = _tensor(value)
        if tensor is not None:
            sizes[tensor[0]] = tensor[1]
        else:
            pending += value
    total = whole(sum(sizes.values())) if sizes else None
    return MISSING if total is None else total


def _tensor(value: list[Any]) -> tuple[Any, int] | None:
    """Return the id and the bytes of a tensor: id, storage, offset, elements, bytes of an element, device."""
    if len(value) != _TENSOR or not isinstance(value[-1], str) or any(whole(part) is None for part in value[:-1]):
        return None
    return value[0], max(value[3], 0) * max(value[4], 0)


def _strided(start: int, stride: int, size: int) -> list[int]:
    """Return the ranks of a group from its first rank, their distance and number; [] where they are not known."""
    if start < 0 or stride <= 0 or not 0 < size <= _LARGEST_GROUP or start + stride * size > _LARGEST_INT32:
        return []
    return list(range(start, start + stride * size, stride))
