"""Logs written back from their tables, with the templates of the formats that read them.

What a table holds stands on its line and part. Scopes are opened where a row inherits something new. All else (who
started, debug prints, blank lines) is known from table `lines` by shape, count, first line and sample: the first of
a shape stands where it stood, the others wherever the run leaves a line free.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

import perflog
from perflog.formats.model import Format, Line
from perflog.formats.registry import COMMON, known
from perflog.formats.template import Field, Template, Value
from perflog.tables.schema import PER_FIELD, TABLES, column_for

Row = dict[str, Any]
ROWS = [name for name in TABLES if name not in ("runs", "lines", "events")]


def relog(log: perflog.Log) -> str:
    """The text of a log. `log` holds the runs of one log, all of them."""
    tables = {name: log.arrow(name).to_pylist() for name in (*ROWS, "runs", "lines")}
    if "milestones" in tables:  # the first and the last stamp of a run are of any lines
        tables["milestones"] = [row for row in tables["milestones"] if row["kind"] != "log"]
    out: dict[int, str] = {}
    for run in tables["runs"]:
        mine = {name: [r for r in rows if r["run"] == run["run"]] for name, rows in tables.items()}
        first = 1 if run["index"] == 1 else run["first_line"]
        out |= _Run(run, mine, first).text()
    assert sorted(out) == list(range(1, len(out) + 1))
    return "".join(f"{out[n]}\n" for n in sorted(out))


def printed(field: Field, stored: Any, factor: float) -> Value:
    """A value that is printed as a text which, read and scaled by the unit's factor, is the stored one."""
    if not field.numeric:
        return str(stored)
    if field.type == "d":
        return round(float(stored) / factor)
    for guess in _near(stored / factor):
        read = _alone(field).match(field.render(guess))
        if read is not None and float(read[field.name]) * factor == stored:
            return guess
    raise AssertionError(f"no text of {field} is read as {stored} of factor {factor}")


@cache
def _alone(field: Field) -> Template:
    return Template(f"{{{field.name}:{field.spec}}}")


def _near(value: float) -> Iterator[float]:
    """Floats at and around a value, those with few digits first."""
    yield from (float(f"{value:.{digits}g}") for digits in (14, 15, 16, 17))
    low = high = value
    for _ in range(4):
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
        yield from (low, high)


class _Run:
    """One run on its way back to text. `first` is its first line, what came before its first record included."""

    def __init__(self, run: Row, tables: dict[str, list[Row]], first: int) -> None:
        self.run, self.tables, self.config = run, tables, json.loads(run["config"])
        self.form: Format = known()[run["format"]]
        self.scopes = [s for s in self.form.scopes if s not in ("run", "process")]
        self.shapes = {r["shape"]: r for r in tables["lines"]}
        declared = [*known()[COMMON].lines, *self.form.lines]
        self.lines = {x.template.text: x for x in declared if x.template.text in self.shapes}
        self.span = range(first, first + sum(r["count"] for r in self.shapes.values()))
        self.out: dict[int, str] = {}
        self.opens: dict[int, tuple[Line, list[Row]]] = {}  # lines that open a scope, with what each piece says
        self.state: dict[str, list[Row]] = {}  # scope -> what the pieces of its last opening say
        self.count: Counter[str] = Counter()  # scope -> openings
        self.used: Counter[str] = Counter()  # shape -> lines written

    def text(self) -> dict[int, str]:
        records: dict[int, dict[int, dict[str, list[Row]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        for name in ROWS:
            for row in self.tables[name]:
                records[row["line"]][row["part"]][name].append(row)
        self.out = dict.fromkeys(records, "")  # taken
        self._printout()
        self._firsts()
        for number, parts in records.items():
            self._end_lines(number, len(parts))
        for number in sorted({*records, *self.opens}):
            if number in records:
                self.out[number] = self._written(number, [records[number][k] for k in sorted(records[number])])
            else:
                self._opened(*self.opens[number])
        self._rest()
        return self.out

    # --- what table `lines` and the printout tell -----------------------------------------------------------------

    def _printout(self) -> None:
        begins = [r for t, r in self.shapes.items() if t in self.lines and self.lines[t].role == "begin"]
        if begins:
            assert len(begins) == begins[0]["count"] == 1
            rows = self.run["printout"].split("\n")
            self.out |= dict(enumerate(rows, begins[0]["first_line"]))

    def _loose(self) -> list[str]:
        """Shapes of lines that no row stands for."""
        return [
            text
            for text in self.shapes
            if text not in self.lines
            or (self.lines[text].role in ("line", "context") and self.lines[text].table in (None, "runs"))
        ]

    def _firsts(self) -> None:
        for text in self._loose():
            number, sample = self.shapes[text]["first_line"], self.shapes[text]["sample"]
            assert number not in self.out
            self.out[number] = sample
            self.used[text] += 1
            line = self.lines.get(text)
            if line is not None and line.opens in self.scopes:
                values = line.template.match(sample)
                assert values is not None
                self.opens[number] = line, [values]

    def _end_lines(self, number: int, records: int) -> None:
        """Write the line feeds of the records on a line below it: without them their ends could be lost."""
        blank = next((text for text, row in self.shapes.items() if not (row["sample"] or "").strip()), None)
        for below in range(number + 1, number + records):
            if blank is not None and below not in self.out and self.used[blank] < self.shapes[blank]["count"]:
                self.out[below] = ""
                self.used[blank] += 1

    def _rest(self) -> None:
        """Fill the lines that are left: what is read first, so that a run's start stays at its start."""
        left = {text: self.shapes[text]["count"] - self.used[text] for text in self._loose()}
        for number in self.span:
            if number not in self.out:
                able = [t for t, n in left.items() if n and self.shapes[t]["first_line"] < number]
                text = max(able, key=lambda t: (t in self.lines and self.lines[t].read, left[t]))
                left[text] -= 1
                self.out[number] = self._again(text, self.shapes[text]["count"] - left[text] - 1)
        assert not any(left.values()), left

    def _again(self, text: str, k: int) -> str:
        """The k-th more line of a shape: its sample, of another rank if it names one."""
        sample: str = self.shapes[text]["sample"]
        values = self.lines[text].template.match(sample) if text in self.lines else None
        if not values or "rank" not in values:
            return sample
        rank = (int(values["rank"]) + k) % self.shapes[text]["count"]
        return self.lines[text].template.render(values | {"rank": rank})

    # --- rows ----------------------------------------------------------------------------------------------------

    def _written(self, number: int, parts: list[dict[str, list[Row]]]) -> str:
        """The line of some records, end to end; what they inherit is opened before it."""
        kinds = [[x for x in self._tabled if _fits(x, part)] for part in parts]
        fresh = self._open(number, [_cells(k[0], part) for k, part in zip(kinds, parts, strict=True)], kinds[0][0])
        text = ""
        for able, part in zip(kinds, parts, strict=True):
            # A line that opens a scope, such as the first row of a group, is printed where its scope is new.
            line, *others = sorted(able, key=lambda x: x.opens is None)
            if line.opens in self.scopes:
                inherited = [n for n in line.template.names if not any(n in x.template.names for x in others)]
                said = {n: part[line.table or ""][0].get(n) for n in inherited}
                if fresh or not self._holds(line.opens or "", said, 0):
                    self._opened(line, [said])
                else:
                    line = others[0]
            text += line.template.render({f.name: self._value(line, f, part) for f in line.template.fields})
        return text

    @cached_property
    def _tabled(self) -> list[Line]:
        return [x for x in self.lines.values() if x.read and x.table not in (None, "runs")]

    def _value(self, line: Line, field: Field, part: dict[str, list[Row]]) -> Value:
        table, name = line.table or "", field.name
        if name in line.run:
            return printed(field, self.config[name], 1.0)
        col = column_for(table, name)
        if col is not None:
            stored = part[table][0][col.name]
        else:
            home = table if table in PER_FIELD else "values"
            key, value = PER_FIELD[home]
            row = next(r for r in part[home] if r[key] == name)
            stored = row["text"] if row[value] is None else row[value]
        return printed(field, stored, line.unit[name].factor if name in line.unit else 1.0)

    # --- scopes --------------------------------------------------------------------------------------------------

    def _said(self, opener: Line, cells: Row) -> Row:
        """What a row inherits from an opening line, as far as it has a column for it."""
        names = [*opener.template.names, *opener.set]
        return {n: cells[n] for n in names or [opener.opens or ""] if cells.get(n) is not None}

    def _holds(self, scope: str, said: Row, k: int) -> bool:
        """Whether the k-th piece of the scope's last opening says this."""
        now = self.state.get(scope)
        if now is None:
            return False
        have = now[k] if k < len(now) else now[-1]
        return all(str(have.get(n)) == str(v) for n, v in said.items())

    def _open(self, number: int, cells: list[Row], line: Line) -> bool:
        """Write the opening lines that these pieces of a line need; whether there was one."""
        new: list[tuple[Line, list[Row]]] = []
        for scope in self.scopes:
            openers = [x for x in self.lines.values() if x.opens == scope and x.table is None]
            openers = [x for x in openers if all(c.get(n) == v for c in cells for n, v in x.set.items())]
            said = [self._said(openers[0], c) for c in cells] if openers and scope not in line.outside else []
            if any(said) and not all(self._holds(scope, s, k) for k, s in enumerate(said)):
                said = said if any(s != said[0] for s in said) else said[:1]
                new.append((openers[0], said))
                self._opened(openers[0], said)
        free = [n for n in range(self.span.start, number) if n not in self.out][-len(new) :] if new else []
        for at, (opener, said) in zip(free, new, strict=True):
            if len(said) > 1 and at - len(said) + 1 not in self.out:
                at -= len(said) - 1
                self._end_lines(at, len(said))
            sample = opener.template.match(self.shapes[opener.template.text]["sample"]) or {}
            self.out[at] = "".join(opener.template.render(sample | s) for s in said)
            self.used[opener.template.text] += 1
        return bool(new)

    def _opened(self, line: Line, said: list[Row]) -> None:
        scope = line.opens or ""
        self.count[scope] += 1
        for inner in self.scopes[self.scopes.index(scope) + 1 :]:
            self.state.pop(inner, None)
        self.state[scope] = [{scope: self.count[scope], **line.set, **s} for s in said]


def _fits(line: Line, part: dict[str, list[Row]]) -> bool:
    """Whether the rows of a record are just those that a line of this kind makes."""
    table = line.table or ""
    home = table if table in PER_FIELD else "values"
    names = [n for n in line.template.names if n not in line.run]
    own = {n for n in names if column_for(table, n) is None}
    given = {col.name for n in names if (col := column_for(table, n))}
    return (
        part.keys() == ({table} if table not in PER_FIELD else set()) | ({home} if own else set())
        and {r[PER_FIELD[home][0]] for r in part.get(home, [])} == own
        and all(part[table][0][n] is not None for n in given)
    )


def _cells(line: Line, part: dict[str, list[Row]]) -> Row:
    """The columns of a record; a rank only where a header gave it."""
    cells = dict(part[line.table or ""][0])
    return cells if cells.get("rank_by") in (None, "header") else cells | {"rank": None}
