"""Meanings of the numbers in records of rocprofv3: kernels, operations, strings of markers, devices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.timestamps import parse_integer, parse_integers

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError)

_NULL = msgspec.Raw(b"null")
_GPU = (2, "GPU")  # types of agents that are GPUs; 1 is a CPU
_KERNEL_NAMES = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name", "truncated_kernel_name")
_AGENT_KEYS = ("node_id", "name", "product_name", "vendor_name", "model_name", "cu_count", "wave_front_size")


class Strings(msgspec.Struct):
    """Names: of record kinds and their operations, in the order of their numbers; of markers, by correlation number."""

    buffer_records: msgspec.Raw = _NULL
    marker_api: msgspec.Raw = _NULL
    correlation_id: msgspec.Raw = _NULL


class ProcessOutput(msgspec.Struct):
    """One process of a file. Its parts stay JSON until they are needed."""

    metadata: msgspec.Raw = _NULL
    agents: msgspec.Raw = _NULL
    strings: Strings | None = None
    kernel_symbols: msgspec.Raw = _NULL
    counters: msgspec.Raw = _NULL
    buffer_records: dict[str, msgspec.Raw] | None = None
    callback_records: dict[str, msgspec.Raw] | None = None


class _MapEntry(msgspec.Struct):
    """An entry of a map with numbers as keys."""

    key: Any = None
    value: Any = None


_map_decoder = msgspec.json.Decoder(list[_MapEntry])


def decode_json(raw: Any) -> Any:
    """Return the value of JSON; None if it is not JSON. Bytes that are no UTF-8, as in names, are replaced."""
    try:
        return msgspec.json.decode(raw)
    except DECODE_ERRORS:
        try:
            return json.loads(bytes(raw).decode("utf-8", "replace"), strict=False)
        except ValueError:
            return None


class Symbols:
    """The names of one process.

    `metadata`: what the process states about itself. `regions`: names of ranges by external correlation number.
    `devices`: device number by agent handle; `device_names` by this number. `device_info`: a description of
    each device, for the run's config.
    """

    def __init__(self, process: ProcessOutput) -> None:
        strings = process.strings or Strings()
        metadata = decode_json(process.metadata)
        self.metadata: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
        self.pid = self.metadata.get("pid")
        self.kernels = dict(_kernel_names(decode_json(process.kernel_symbols)))
        counters = _dicts(decode_json(process.counters))
        self._counters = {_handle(counter.get("id")): str(counter["name"]) for counter in counters if "name" in counter}
        self.operations = [_record_kind(entry) for entry in _dicts(decode_json(strings.buffer_records))]
        self.messages = _text_by_number(strings.marker_api)
        correlation = decode_json(strings.correlation_id)
        external = correlation.get("external") if isinstance(correlation, dict) else None
        self.regions = _text_by_number(json.dumps(external).encode())
        gpus = [agent for agent in _dicts(decode_json(process.agents)) if agent.get("type") in _GPU]
        gpus.sort(key=lambda gpu: parse_integer(gpu.get("node_id")))
        self.devices = _device_numbers(gpus)
        self.device_names = {
            self.devices[_handle(gpu.get("id"))]: str(gpu.get("product_name") or gpu.get("name") or "") for gpu in gpus
        }
        self.device_info = [
            {"device": self.devices[_handle(gpu.get("id"))]} | {key: gpu[key] for key in _AGENT_KEYS if key in gpu}
            for gpu in gpus
        ]

    def counter(self, number: int) -> str:
        """Return the name of a counter, or its number where the file does not name it."""
        return self._counters.get(number, "counter" if number == MISSING else f"counter {number}")

    def operation(self, kind: Any, operation: Any) -> tuple[str | None, str | None]:
        """Return the names of a record kind and of one of its operations; None where the file does not have them."""
        if not isinstance(kind, int) or not 0 <= kind < len(self.operations):
            return None, None
        name, operations = self.operations[kind]
        known = isinstance(operation, int) and 0 <= operation < len(operations)
        return name, operations[operation] if known else None


def _device_numbers(gpus: list[dict[str, Any]]) -> dict[int, int]:
    """Number the GPUs as the file does; in the order of their nodes if it does not, or not uniquely."""
    numbers = [parse_integer(gpu.get("logical_node_type_id")) for gpu in gpus]
    numbered = min(numbers, default=-1) >= 0 and len(set(numbers)) == len(numbers)
    return {_handle(gpu.get("id")): numbers[i] if numbered else i for i, gpu in enumerate(gpus)}


def _handle(value: object) -> int:
    """Return the number of `{"handle": number}`; newer versions may write the number alone."""
    return parse_integer(value.get("handle") if isinstance(value, dict) else value)


def _dicts(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, or in a map as its values; any other value counts as an empty object."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [x if isinstance(x, dict) else {} for x in values]


def _kernel_names(symbols: object) -> Iterable[tuple[int, str]]:
    for index, symbol in enumerate(_dicts(symbols)):
        name = next((symbol[key] for key in _KERNEL_NAMES if isinstance(symbol.get(key), str) and symbol[key]), None)
        if name is not None:
            yield parse_integer(symbol.get("kernel_id", index)), name


def _record_kind(entry: Mapping[str, Any]) -> tuple[str | None, list[str | None]]:
    """Return the name of a record kind, and the names of its operations."""
    operations = entry.get("operations")
    names = [x if isinstance(x, str) else None for x in operations] if isinstance(operations, list) else []
    return (entry["kind"] if isinstance(entry.get("kind"), str) else None), names


def _text_by_number(raw: Any) -> dict[int, str]:
    """Return a map from numbers to strings, written as a list of keys and values or as an object."""
    try:
        entries = [(entry.key, entry.value) for entry in _map_decoder.decode(raw)]
    except DECODE_ERRORS:
        value = decode_json(raw)
        if isinstance(value, dict):
            entries = list(value.items())
        else:
            entries = [(entry.get("key"), entry.get("value")) for entry in _dicts(value)]
    keys = parse_integers([key for key, _ in entries]).tolist()
    texts = zip(keys, (text for _, text in entries), strict=True)
    return {key: text for key, text in texts if key != MISSING and isinstance(text, str)}
