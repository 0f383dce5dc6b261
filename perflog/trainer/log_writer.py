"""Writes log lines through the same templates that perflog reads them with. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping

from perflog.errors import InputError
from perflog.formats.model import Line
from perflog.formats.registry import get
from perflog.formats.template import Value


class LogWriter:
    """Writes the lines of a format. Each line is one write, so that lines of two ranks do not mix.

    Callers give values in base units (seconds, bytes); the log has the unit that the format declares for the field.
    A value that the format can check is not an argument: the writer computes it with that check, from the line and the
    run values printed before.
    """

    def __init__(self, format: str, rank: int, file: int = 1) -> None:
        self.rank = rank
        self._lines = {line.name: line for line in get(format).lines if line.read}
        self._file = file
        self._run_values: dict[str, float] = {}

    def write(self, name: str, means: Mapping[str, Value] | None = None, /, **values: Value) -> dict[str, Value]:
        """Print the line of that name. Returns its fields as printed, in printed units.

        `means` are computed from printed values: they are in printed units already.
        """
        text, printed = self.render(name, means, **values)
        self.write_text(f"{text}\n")
        return printed

    def write_once(self, name: str, /, **values: Value) -> None:
        """Print the line on rank 0 only. All ranks call this: their later checks use its values."""
        self.write_if(name, self.rank == 0, **values)

    def write_if(self, name: str, prints: bool, /, **values: Value) -> None:
        """Print the line on the ranks where `prints` is true. All ranks call this, as with `write_once`."""
        text, _ = self.render(name, **values)
        if prints:
            self.write_text(f"{text}\n")

    def render(
        self, name: str, means: Mapping[str, Value] | None = None, /, **values: Value
    ) -> tuple[str, dict[str, Value]]:
        """Render the line of that name, without the line end, and its fields as printed."""
        line = self._lines[name]
        units = {n: values[n] for n in line.unit.keys() & values.keys()}
        values |= {n: float(v) / line.unit[n].factor for n, v in units.items()}
        values |= means or {}
        if line.check is not None:
            left, expr = line.check
            rounded = {
                f.name: f.value(f.render(values[f.name]).strip()) for f in line.template.fields if f.name in values
            }
            values[left] = expr(self._run_values | {n: v for n, v in rounded.items() if not isinstance(v, str)})
        text = line.template.render(values)
        printed = line.template.match(text)
        assert printed is not None, text
        if line.table == "runs":
            self._run_values |= {n: v for n, v in printed.items() if not isinstance(v, str)}
        return text, printed

    def write_phases(self, step: int, seconds: Mapping[str, float]) -> None:
        """Print each line of the phases table if all its phases were measured."""
        for line in self._lines.values():
            if line.table == "phases" and printed_phases(line) <= seconds.keys():
                self.write(
                    line.name, rank=self.rank, step=step, **{name: seconds[name] for name in printed_phases(line)}
                )

    def write_text(self, text: str) -> None:
        """Write a string unchanged. Raises InputError if the output cannot be written."""
        data = text.encode()
        try:
            while data:  # one write, unless the disk is nearly full
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise InputError(
                f"the log cannot be written: {error.strerror}", help="what was written so far is kept"
            ) from error


def printed_phases(line: Line) -> set[str]:
    """Return the phases that a line prints."""
    return {*line.template.names} - {"rank", "step"}
