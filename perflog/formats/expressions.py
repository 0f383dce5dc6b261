"""Arithmetic over field values, for format files: `batch + 1`, `round(f32(remote / amount), 6)`.

An expression has numbers, names, + - * / // % **, and the functions in `FUNCTIONS`. It works on numbers and on numpy
arrays alike. No other part of Python can be reached from it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from perflog.errors import FormatError

_OPERATORS: dict[type[ast.operator] | type[ast.unaryop], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def _f32(value: Any) -> Any:
    """Round to float32, the precision of a C float."""
    import numpy as np

    return np.float32(value)


def _round(value: Any, digits: int) -> Any:
    """Round to a number of decimals exactly as printf does."""
    import numpy as np

    if np.ndim(value) == 0:
        return float(f"{value:.{digits}f}")
    return np.array([float(f"{x:.{digits}f}") for x in value.tolist()])


def _least(*values: Any) -> Any:
    import numpy as np

    return np.minimum.reduce(np.broadcast_arrays(*values))


def _most(*values: Any) -> Any:
    import numpy as np

    return np.maximum.reduce(np.broadcast_arrays(*values))


def _if_equal(first: Any, second: Any, value: Any) -> Any:
    """Return the value where two numbers are equal, NaN elsewhere: an unknown value."""
    import numpy as np

    return np.where(np.equal(first, second), value, np.nan)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "f32": _f32, "round": _round, "abs": abs, "min": _least, "max": _most, "if_equal": _if_equal,
}  # fmt: skip
_HIGHEST_POWER = 16
_ARGUMENTS = {"f32": (1, 1), "round": (2, 2), "abs": (1, 1), "min": (2, 99), "max": (2, 99), "if_equal": (3, 3)}
_FUNCTIONS = {name: (function, *_ARGUMENTS[name]) for name, function in FUNCTIONS.items()}

Function = tuple[Callable[..., Any], int, int]
"""A function, with the least and the greatest number of its arguments."""


class Expression:
    """A parsed expression. Call it with a mapping of names to numbers or arrays to get its value.

    Args:
        text: The expression.
        more: Functions beside those in `FUNCTIONS`, by name.

    Attributes:
        text: The expression as it was written.
        names: The names that it needs, sorted.

    Raises:
        FormatError: The expression is not arithmetic.

    Example:
        >>> Expression("2 * batch + 1")({"batch": 8})
        17
    """

    def __init__(self, text: str, more: Mapping[str, Function] | None = None) -> None:
        self.text = text
        self._functions: Mapping[str, Function] = {**_FUNCTIONS, **(more or {})}
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            column = " " * max((error.offset or 1) - 1, 0)
            raise FormatError("not an expression", f"{text}\n{column}^", "write arithmetic over field names") from error
        self.names: tuple[str, ...] = tuple(sorted(self._collect(self._tree)))

    def _collect(self, node: ast.AST) -> set[str]:
        match node:
            case ast.Name(id=name):
                return {name}
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return set()
            case ast.BinOp(op=ast.Pow(), right=right) if not (
                isinstance(right, ast.Constant) and isinstance(right.value, int) and 0 <= right.value <= _HIGHEST_POWER
            ):
                pass  # 9**9**9 would never end
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return self._collect(left) | self._collect(right)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return self._collect(operand)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
                name in self._functions and self._functions[name][1] <= len(args) <= self._functions[name][2]
            ):
                return {n for a in args for n in self._collect(a)}
        column = " " * getattr(node, "col_offset", 0)
        raise FormatError(
            "only arithmetic is allowed",
            f"{self.text}\n{column}^",
            f"functions are {', '.join(sorted(self._functions))}",
        )

    def __call__(self, values: Mapping[str, object]) -> Any:
        return self._value(self._tree, values)

    def _value(self, node: ast.AST, values: Mapping[str, object]) -> Any:
        match node:
            case ast.Name(id=name):
                return values[name]
            case ast.Constant(value=value):
                return value
            case ast.BinOp(left=left, op=op, right=right):
                return _OPERATORS[type(op)](self._value(left, values), self._value(right, values))
            case ast.UnaryOp(op=op, operand=operand):
                return _OPERATORS[type(op)](self._value(operand, values))
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._functions[name][0](*(self._value(a, values) for a in args))
        raise AssertionError(node)
