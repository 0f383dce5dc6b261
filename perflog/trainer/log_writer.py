"""Log lines, printed through the templates that perflog reads them with. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping

from perflog.errors import InputError
from perflog.formats.model import Line
from perflog.formats.registry import get
from perflog.formats.template import Value


class LogWriter:
    """Writes lines of a format, each in one write, so that no two ranks' lines mix.

    Values come in base units (seconds, bytes) and leave in the unit that the format declares for the field. What the
    format can check is not handed over but computed, by that very check, from the line and what was said of the run.
    """

    def __init__(self, format: str, rank: int, file: int = 1) -> None:
        self.rank = rank
        self._lines = {line.name: line for line in get(format).lines if line.read}
        self._file = file
        self._said: dict[str, float] = {}

    def write(self, name: str, means: Mapping[str, Value] | None = None, /, **values: Value) -> dict[str, Value]:
        """Print the line of that name. Gives its fields as they were printed, in printed units.

        `means` are made of printed values: they are in printed units already.
        """
        text, printed = self.text(name, means, **values)
        self.put(f"{text}\n")
        return printed

    def once(self, name: str, /, **values: Value) -> None:
        """The line of that name, printed by rank 0 alone. All ranks say it: it counts in what they print later."""
        self.each(name, self.rank == 0, **values)

    def each(self, name: str, speaks: bool, /, **values: Value) -> None:
        """The same, printed by each rank that `speaks`."""
        text, _ = self.text(name, **values)
        if speaks:
            self.put(f"{text}\n")

    def text(
        self, name: str, means: Mapping[str, Value] | None = None, /, **values: Value
    ) -> tuple[str, dict[str, Value]]:
        """The line of that name, without its end, and its fields as they are printed."""
        line = self._lines[name]
        units = {n: values[n] for n in line.unit.keys() & values.keys()}
        values |= {n: float(v) / line.unit[n].factor for n, v in units.items()}
        values |= means or {}
        if line.check is not None:
            left, expr = line.check
            rounded = {
                f.name: f.value(f.render(values[f.name]).strip()) for f in line.template.fields if f.name in values
            }
            values[left] = expr(self._said | {n: v for n, v in rounded.items() if not isinstance(v, str)})
        text = line.template.render(values)
        printed = line.template.match(text)
        assert printed is not None, text
        if line.table == "runs":
            self._said |= {n: v for n, v in printed.items() if not isinstance(v, str)}
        return text, printed

    def phases(self, step: int, seconds: Mapping[str, float]) -> None:
        """Print each line of phases whose times were all measured."""
        for line in self._lines.values():
            if line.table == "phases" and fields(line) <= seconds.keys():
                self.write(line.name, rank=self.rank, step=step, **{name: seconds[name] for name in fields(line)})

    def put(self, text: str) -> None:
        """Write text as it is. Raises InputError where nothing can be written."""
        data = text.encode()
        try:
            while data:  # one write, unless the disk is nearly full
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise InputError(
                f"the log cannot be written: {error.strerror}", help="what was written so far is kept"
            ) from error


def fields(line: Line) -> set[str]:
    """The phases that a line prints."""
    return {*line.template.names} - {"rank", "step"}
