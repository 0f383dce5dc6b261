"""Conditions on runs, as people type them: `format = megatron and world_size >= 8`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from perflog.errors import UsageError
from perflog.lazy_patterns import lazy_pattern

Fact = str | float | int | None
Condition = Callable[[Mapping[str, Fact]], bool]

_TOKEN = lazy_pattern(
    r"""\s*(?: (?P<operator> == | != | <> | <= | >= | = | < | > | ~ | \( | \) )
        | '(?P<single>[^']*)' | "(?P<double>[^"]*)" | (?P<word>[^\s=!<>~()'"]+) )""",
    re.VERBOSE,
)
_DATE = lazy_pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
    "~": lambda a, b: str(b).lower() in str(a).lower(),
}
_SAME = {"==": "=", "<>": "!="}
_DEEPEST = 100  # levels of brackets and `not`
_EXAMPLE = "for example: format = megatron and (world_size >= 8 or model ~ llama)"


class RunFilter(Struct, frozen=True):
    """A condition on runs. `names`: the facts that it asks for."""

    names: tuple[str, ...]
    holds: Condition


def parse(text: str) -> RunFilter:
    """Return the condition in a string.

    Args:
        text: Comparisons `NAME OPERATOR VALUE`, joined by `and`, `or`, `not` and brackets. Operators: = != < <= > >=,
            and ~ for "contains". A value in quotes is a string; else numbers compare as numbers. A date compares as far
            as the value says it: `= 2026-03-01` holds for all of that day. Of a run without the fact no comparison
            holds.

    Raises:
        UsageError: The string is no condition.
    """
    parser = _Parser(text)
    condition = parser.any_of()
    if parser.place < len(parser.tokens):
        raise parser.error()
    return RunFilter(tuple(dict.fromkeys(parser.names)), condition)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.place, self.names = text, 0, list[str]()
        self.depth = 0  # of brackets and `not` around the position
        self.tokens: list[tuple[str, str]] = []  # kind and string
        end, length = 0, len(text.rstrip())
        while end < length:
            match = _TOKEN.match(text, end)
            if not match:
                raise UsageError(f"the condition {text!r} cannot be read at {text[end:].strip()!r}", help=_EXAMPLE)
            kind = "text" if match.lastgroup in ("single", "double") else match.lastgroup or ""
            self.tokens.append((kind, match[match.lastgroup or 0]))
            end = match.end()

    def error(self) -> UsageError:
        at = f"at {self.tokens[self.place][1]!r}" if self.place < len(self.tokens) else "at its end"
        return UsageError(f"the condition {self.text!r} cannot be read {at}", help=_EXAMPLE)

    def _next(self, *words: str) -> bool:
        """Take the next token if it is one of these words."""
        if self.place < len(self.tokens):
            kind, token = self.tokens[self.place]
            if kind != "text" and token.lower() in words:
                self.place += 1
                return True
        return False

    def any_of(self) -> Condition:
        conditions = [self._all_of()]
        while self._next("or"):
            conditions.append(self._all_of())
        return lambda facts: any(condition(facts) for condition in conditions)

    def _all_of(self) -> Condition:
        conditions = [self._one()]
        while self._next("and"):
            conditions.append(self._one())
        return lambda facts: all(condition(facts) for condition in conditions)

    def _one(self) -> Condition:
        if self.depth > _DEEPEST:
            raise UsageError(f"a condition is nested more than {_DEEPEST} levels deep", help=_EXAMPLE)
        self.depth += 1
        if self._next("not"):
            condition = _negated(self._one())
        elif self._next("("):
            condition = self.any_of()
            if not self._next(")"):
                raise self.error()
        else:
            condition = self._comparison()
        self.depth -= 1
        return condition

    def _comparison(self) -> Condition:
        tokens = self.tokens[self.place : self.place + 3]
        kinds = [kind for kind, _ in tokens]
        if len(tokens) < 3 or kinds[0] == "operator" or kinds[1] != "operator" or kinds[2] == "operator":
            self.place += next((i for i, kind in enumerate(kinds) if (kind == "operator") != (i == 1)), len(tokens))
            raise self.error()
        if (operator := _SAME.get(tokens[1][1], tokens[1][1])) not in _COMPARE:
            self.place += 1
            raise self.error()
        self.place += 3
        name, wanted = tokens[0][1], _value(*tokens[2])
        self.names.append(name)
        return lambda facts: _compare(operator, facts[name], wanted)


def _negated(condition: Condition) -> Condition:
    return lambda facts: not condition(facts)


def _value(kind: str, text: str) -> str | float:
    number = number_of(text)
    return text if kind == "text" or number is None else number


def number_of(value: Fact) -> float | None:
    """Return a fact as a number, or None."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None if value is None else float(value)


def _compare(operator: str, fact: Fact, wanted: str | float) -> bool:
    if fact is None:
        return False
    number = number_of(fact)
    if isinstance(wanted, float) and number is not None and operator != "~":
        return _COMPARE[operator](number, wanted)
    # Of a fact that is no number, `= 3` is false, and `<` compares strings.
    text, wanted = str(fact), wanted if isinstance(wanted, str) else f"{wanted:g}"
    if _DATE.fullmatch(text):
        wanted = wanted.replace(" ", "T")
        text = text if operator == "~" else text[: len(wanted)]
    return _COMPARE[operator](text, wanted)
