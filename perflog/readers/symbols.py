"""What the numbers in records of rocprofv3 stand for: kernels, operations, messages of markers, agents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from perflog.readers.columns import NONE
from perflog.readers.times import whole

BAD = (msgspec.DecodeError, UnicodeDecodeError)
_NOTHING = msgspec.Raw(b"null")
_GPU = (2, "GPU")  # agents of type 1 are CPUs
_NAMES = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name", "truncated_kernel_name")
_TOLD = ("node_id", "name", "product_name", "vendor_name", "model_name", "cu_count", "wave_front_size")


class Strings(msgspec.Struct):
    """Names: of kinds and their operations, in the order of their numbers; of markers, by their correlation number."""

    buffer_records: msgspec.Raw = _NOTHING
    marker_api: msgspec.Raw = _NOTHING
    correlation_id: msgspec.Raw = _NOTHING


class Process(msgspec.Struct):
    """One process of a file. Its parts stay text until they are needed."""

    metadata: msgspec.Raw = _NOTHING
    agents: msgspec.Raw = _NOTHING
    strings: Strings | None = None
    kernel_symbols: msgspec.Raw = _NOTHING
    buffer_records: dict[str, msgspec.Raw] | None = None
    callback_records: dict[str, msgspec.Raw] | None = None


class Pair(msgspec.Struct):
    """An entry of a map whose keys are numbers."""

    key: Any = None
    value: Any = None


_pairs = msgspec.json.Decoder(list[Pair])


def plain(raw: Any) -> Any:
    """The value of a JSON text, None where there is none. A name of a kernel may hold bytes that are no UTF-8."""
    try:
        return msgspec.json.decode(raw)
    except BAD:
        try:
            return json.loads(bytes(raw).decode("utf-8", "replace"), strict=False)
        except ValueError:
            return None


def number(value: Any) -> int:
    """An integer; NONE for all else."""
    return int(whole([value])[0])


def handle(value: Any) -> int:
    """The number of `{"handle": number}`, which newer writers may give bare."""
    return number(value.get("handle") if isinstance(value, dict) else value)


class Symbols:
    """The names of one process."""

    def __init__(self, process: Process) -> None:
        strings = process.strings or Strings()
        said = plain(process.metadata)
        self.said: dict[str, Any] = said if isinstance(said, dict) else {}
        self.pid = self.said.get("pid")
        self.kernels = dict(_kernels(plain(process.kernel_symbols)))
        self.kinds = [_kind(x) for x in _dicts(plain(strings.buffer_records))]
        self.messages = _mapped(strings.marker_api)
        external = plain(strings.correlation_id)
        told = external.get("external") if isinstance(external, dict) else None
        self.regions = _mapped(json.dumps(told).encode())
        gpus = [a for a in _dicts(plain(process.agents)) if a.get("type") in _GPU]
        gpus.sort(key=lambda a: number(a.get("node_id")))
        places = [number(a.get("logical_node_type_id")) for a in gpus]
        known = min(places, default=-1) >= 0 and len(set(places)) == len(places)
        self.devices = {handle(a.get("id")): places[i] if known else i for i, a in enumerate(gpus)}
        self.told = [{"device": self.devices[handle(a.get("id"))]} | {k: a[k] for k in _TOLD if k in a} for a in gpus]

    def operation(self, kind: Any, operation: Any) -> tuple[str | None, str | None]:
        """Names of a kind and of one of its operations, where the file tells them."""
        if not isinstance(kind, int) or not 0 <= kind < len(self.kinds):
            return None, None
        name, operations = self.kinds[kind]
        known = isinstance(operation, int) and 0 <= operation < len(operations)
        return name, operations[operation] if known else None


def _dicts(value: Any) -> list[dict[str, Any]]:
    """What is in a list, or in a map as its values."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [x if isinstance(x, dict) else {} for x in values]


def _kernels(symbols: Any) -> Iterable[tuple[int, str]]:
    for place, symbol in enumerate(_dicts(symbols)):
        name = next((symbol[n] for n in _NAMES if isinstance(symbol.get(n), str) and symbol[n]), None)
        if name is not None:
            yield number(symbol.get("kernel_id", place)), name


def _kind(told: Mapping[str, Any]) -> tuple[str | None, list[str | None]]:
    operations = told.get("operations")
    names = [x if isinstance(x, str) else None for x in operations] if isinstance(operations, list) else []
    return (told["kind"] if isinstance(told.get("kind"), str) else None), names


def _mapped(raw: Any) -> dict[int, str]:
    """A map from numbers to texts: a list of keys and values, or an object."""
    try:
        pairs = [(p.key, p.value) for p in _pairs.decode(raw)]
    except BAD:
        value = plain(raw)
        pairs = (
            list(value.items()) if isinstance(value, dict) else [(x.get("key"), x.get("value")) for x in _dicts(value)]
        )
    keys = whole([key for key, _ in pairs]).tolist()
    return {k: text for k, (_, text) in zip(keys, pairs, strict=True) if k != NONE and isinstance(text, str)}
