"""Work of operators: floating-point operations and least bytes of a call, from its inputs: shapes, types and values.

The formulas are data: `operators.toml`, which describes its keys.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli
from msgspec import Struct, field

from perflog.formats.expressions import Expression
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.events.element_types import element_bytes, element_type

PRODUCTS = ("matmul", "convolution", "attention")
"""Classes with products as work: arithmetic may bound them."""

COMMUNICATION = "communication"
"""The class of operators that the network bounds."""

CLASSES = (*PRODUCTS, "normalisation", "elementwise", COMMUNICATION)
"""All classes of operators."""

_FILE = Path(__file__).with_name("operators.toml")
_KEYS = ("class", "inputs", "values", "types", "equal", "absent", "floating", "arithmetic", "flop", "bytes", "source")
_SCALAR_TYPE_BYTES = {
    **dict.fromkeys((0, 1, 11, 23, 24, 25, 26, 44), 1), **dict.fromkeys((2, 5, 15), 2), **dict.fromkeys((3, 6, 8), 4),
    **dict.fromkeys((4, 7, 9), 8), 10: 16,
}  # fmt: skip
"""Bytes of an element by the number of its type, as in c10/core/ScalarType.h."""
_ERRORS = (ArithmeticError, KeyError, TypeError, ValueError)
_WHOLE = lazy_pattern(r"(\d)\.(?!\d)")  # PyTorch prints 2.0 as `2.`
_MOST = 2.0**100  # no call does so much: sizes are wrong


class Work(NamedTuple):
    """Work of one call. `flop`: floating-point operations; `bytes`: least traffic; None: unknown.

    `type`: element type that the arithmetic is done in, such as `bfloat16`.
    """

    flop: float | None = None
    bytes: float | None = None
    type: str | None = None


class OperatorFormula(Struct, frozen=True):
    """An entry of `operators.toml`, with the meaning that it gives to its keys."""

    kind: str
    inputs: tuple[str, ...]
    source: str
    values: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, int] = field(default_factory=dict)
    equal: tuple[tuple[Expression, Expression], ...] = ()
    absent: tuple[int, ...] = ()
    floating: bool = False
    arithmetic: int | None = None
    flop: Expression | None = None
    bytes: Expression | None = None

    def work(self, call: Call) -> Work | None:
        """Return the work of a call; None if the entry does not fit it."""
        try:
            names = self._names(call)
            if names is None or any(left(names) != right(names) for left, right in self.equal):
                return None
        except _ERRORS:
            return None
        read = [argument for argument, pattern in enumerate(self.inputs) if pattern != "-" and argument in call.shapes]
        names |= call.sizes
        if all(f"size{argument}" in names for argument in read):
            names["read"] = sum(names[f"size{argument}"] for argument in read)
        first = call.types.get(read[0] if self.arithmetic is None else self.arithmetic) if read else None
        # A complex product has four times the operations, or three with a trick: no formula counts them.
        flop = None if self.kind in PRODUCTS and "complex" in (first or "") else _number(self.flop, names)
        return Work(flop, _number(self.bytes, names), first)

    def _names(self, call: Call) -> dict[str, Any] | None:
        """Return sizes and values by name."""
        names: dict[str, Any] = {}
        if any(call.has(argument) for argument in self.absent) or (self.floating and not call.floating):
            return None
        for argument, pattern in enumerate(self.inputs):
            shape, text = call.shapes.get(argument), pattern.removesuffix("?")
            if text == "-" or (shape is None and text != pattern):
                continue
            if shape is None or (text != "_" and not _bind(text.split(), shape, names)):
                return None
        for name, argument in self.values.items():
            value = _value(call.values.get(argument))
            if value is None:
                continue
            if name.startswith("*"):
                items = value if isinstance(value, list) else [value]
                names |= {f"{name[1:]}{index}": item for index, item in enumerate(items)}
                value = np.array(items, object)
            names[name.removeprefix("*")] = value
        for name, argument in self.types.items():
            number = _value(call.values.get(argument))
            known = _SCALAR_TYPE_BYTES.get(number) if isinstance(number, int) else call.sizes.get("item0")
            if known is not None and call.has_values:  # else it is not known whether a type was given
                names[name] = known
        return names


@cache
def operator_formulas() -> Mapping[str, tuple[OperatorFormula, ...]]:
    """Return the formulas of each operator; the first one that fits a call holds."""
    formulas: dict[str, list[OperatorFormula]] = {}
    entries: dict[str, Mapping[str, Any]] = {}
    for entry in tomli.loads(_FILE.read_text("utf-8"))["operator"]:
        whole = {**entries[entry["like"]], **entry} if "like" in entry else entry
        formula = _formula({key: whole[key] for key in _KEYS if key in whole})
        for name in entry["names"]:
            entries.setdefault(name, whole)
            formulas.setdefault(name, []).append(formula)
    return {name: tuple(each) for name, each in formulas.items()}


def _formula(keys: Mapping[str, Any]) -> OperatorFormula:
    texts = {key: _expression(keys[key]) for key in ("flop", "bytes") if key in keys}
    return OperatorFormula(
        keys["class"], tuple(keys["inputs"]), keys["source"], keys.get("values", {}), keys.get("types", {}),
        tuple((_expression(left), _expression(right)) for left, right in keys.get("equal", ())),
        tuple(keys.get("absent", ())), keys.get("floating", False), keys.get("arithmetic"), **texts,
    )  # fmt: skip


def _expression(text: str) -> Expression:
    return Expression(text, {"prod": (_product, 1, 1)})


def class_of(operator: str) -> str | None:
    """Return the class of an operator; None if no formula is known."""
    formulas = operator_formulas().get(operator)
    return formulas[0].kind if formulas else None


def takes_values(operator: str) -> bool:
    """Return whether the work of an operator depends on inputs that are no tensors."""
    return any(f.values or f.types or f.absent for f in operator_formulas().get(operator, ()))


def work_of(operator: str, shapes: str | None, types: str | None, strides: str | None, values: str | None) -> Work:
    """Return the work of a call of an operator, from its inputs as strings, as the profiler prints them.

    Example:
        >>> work_of("aten::mm", "[[2, 3], [3, 4]]", '["float", "float"]', None, None)
        Work(flop=48.0, bytes=104.0, type='float')
    """
    call = Call(*map(_listed, (shapes, types, strides, values)))
    formulas = operator_formulas().get(operator, ())
    unknown = Work(type=next(iter(call.types.values()), None))
    return next((work for formula in formulas if (work := formula.work(call)) is not None), unknown)


class Call:
    """The inputs of a call.

    Attributes:
        shapes: Shape of each tensor by its index. Without types, an empty shape may not be a tensor, and is none.
        types: Type of each of them, if it is known.
        values: Value of each input that has one.
        has_values: Whether the trace has the values of inputs.
    """

    def __init__(self, shapes: list[Any], types: list[Any], strides: list[Any], values: list[Any]) -> None:
        self.shapes: dict[int, list[int]] = {}
        self.types: dict[int, str] = {}
        for argument, shape in enumerate(shapes):
            dtype = types[argument] if argument < len(types) else None
            is_tensor = isinstance(dtype, str) and element_bytes(dtype) is not None
            if _is_shape(shape) and (is_tensor or (shape and not isinstance(dtype, str))):
                self.shapes[argument] = shape
                if is_tensor:
                    self.types[argument] = element_type(str(dtype))
        self.values = {argument: value for argument, value in enumerate(values) if isinstance(value, str) and value}
        self.has_values = bool(values)
        self._lists = {argument for argument, shape in enumerate(shapes) if shape and argument not in self.shapes}
        self._strides = strides

    def has(self, argument: int) -> bool:
        """Return whether an input is a tensor, a list, or has a value other than None and -1."""
        return (
            argument in self.shapes or argument in self._lists or self.values.get(argument) not in (None, "None", "-1")
        )

    @cached_property
    def floating(self) -> bool:
        """Whether the first tensor holds floating-point numbers."""
        first = next(iter(self._arrays.values()), None)
        return first is not None and first.startswith(("float", "half", "bfloat", "double"))

    @cached_property
    def _arrays(self) -> dict[int, str | None]:
        """The types of tensors that are no single numbers; of all where all are: single numbers take another type."""
        arrays = {argument: self.types.get(argument) for argument, shape in self.shapes.items() if shape}
        return arrays or dict(self.types)

    @cached_property
    def sizes(self) -> dict[str, Any]:
        """Elements and bytes of the tensors by name, as formulas use them."""
        sizes: dict[str, Any] = {}
        for argument, shape in self.shapes.items():
            strides = self._strides[argument] if argument < len(self._strides) else None
            aligned = strides if isinstance(strides, list) and len(strides) == len(shape) else [1] * len(shape)
            sizes[f"n{argument}"] = math.prod(shape)
            if argument in self.types:
                item = sizes[f"item{argument}"] = element_bytes(self.types[argument]) or 0
                distinct = math.prod(n if stride != 0 else min(n, 1) for n, stride in zip(shape, aligned, strict=True))
                sizes[f"size{argument}"] = distinct * item
        types = set(self._arrays.values())
        if len(types) == 1 and (common := next(iter(types))) is not None:
            sizes["item"] = element_bytes(common)
        with suppress(ValueError, OverflowError):  # shapes that are not for one elementwise operation
            sizes["out"] = math.prod(np.broadcast_shapes(*map(tuple, self.shapes.values())))
        return sizes


def _bind(names: Sequence[str], shape: Sequence[int], known: dict[str, Any]) -> bool:
    """Assign the sizes of a shape to names. Return whether they fit, and agree with the known ones."""
    many = next((index for index, name in enumerate(names) if name.startswith("*")), None)
    if len(shape) < len(names) - (many is not None) or (many is None and len(shape) > len(names)):
        return False
    sizes: list[Any] = list(shape)
    if many is not None:
        end = len(shape) - (len(names) - many - 1)
        listed = np.empty(end - many, object)
        listed[:] = shape[many:end]
        sizes[many:end] = [listed]
    for name, size in zip(names, sizes, strict=True):
        if not np.array_equal(known.setdefault(name.removeprefix("*"), size), size):
            return False
    return True


def _listed(text: str | None) -> list[Any]:
    """Return the list that a string prints; an empty one if it prints none."""
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)


def _value(text: str | None) -> Any:
    """Return the number, or the list of numbers, that a string prints; None if it prints anything else."""
    try:
        words = (text or "").replace("True", "1").replace("False", "0")
        value = json.loads(_WHOLE.sub(r"\1.0", words))
    except (ValueError, RecursionError):
        return None
    items = value if isinstance(value, list) else [value]
    return value if all(isinstance(item, int | float) for item in items) else None


def _product(values: Any) -> Any:
    """Return the product of a list of non-negative numbers, such as the sizes of an output."""
    items = np.atleast_1d(values).tolist()
    if any(item < 0 for item in items):
        raise ValueError(items)
    return math.prod(items)


def _number(formula: Expression | None, names: Mapping[str, Any]) -> float | None:
    """Return the value of a formula; None if it needs unknown values, or is no amount."""
    if formula is None:
        return None
    try:
        number = float(formula(names))
    except _ERRORS:
        return None
    return number if 0 <= number < _MOST else None
