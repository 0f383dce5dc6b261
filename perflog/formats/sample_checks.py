"""Checks samples of format files: each belongs to one line of one format, which writes it back identically."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from perflog.errors import FormatError, did_you_mean
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.model import Family, Format, Line
from perflog.formats.template import Value, caret


def check_samples(format: Format, others: Iterable[Format] = ()) -> None:
    """Check that each sample matches its own line and no other, and renders back identically.

    Args:
        format: The format with the samples.
        others: Formats with lines that must not match the samples. Generic lines may match samples of other formats.

    Raises:
        FormatError: A check fails. The error has a caret under the offset at which the match stopped.
    """
    every = [format, *(f for f in others if format.generic or not f.generic)]
    readers = _Readers((f, x) for f in every for x in (*f.lines, *sample_lines(f)) if _reads_by_text(x, f is format))
    for table in (family for family in format.families if isinstance(family, HeaderTable)):
        _check_table(format, table)
    for line in format.lines:
        for sample in line.samples:
            _check_sample(format, line, sample, readers)
            _check_families(format, line.name, sample, every, None)
    for family in format.families:
        for sample in family.samples:
            lines = family.lines(sample)
            line_of_sample = next((line for line in lines if line.template.match(sample) is not None), None)
            if line_of_sample is None:
                where = f"{format.path}, line `{family.name}`"
                raise FormatError(f"the sample does not match `{family.text}`\n{sample}", where, _miss(family, sample))
            _check_sample(format, line_of_sample, sample, readers, family)
            _check_families(format, family.name, sample, every, family)


class _Readers:
    """Lines with their formats, by what they begin with: a sample is compared with the few that begin as it does."""

    def __init__(self, lines: Iterable[tuple[Format, Line]]) -> None:
        self._by_beginning: dict[bytes, list[tuple[Format, Line]]] = {}
        for owner, line in lines:
            self._by_beginning.setdefault(line.template.prefix, []).append((owner, line))
        self._lengths = sorted({len(beginning) for beginning in self._by_beginning})

    def of(self, raw: bytes) -> Iterator[tuple[Format, Line]]:
        """Yield the lines that read a string without trailing whitespace."""
        for length in (n for n in self._lengths if n <= len(raw)):
            for owner, line in self._by_beginning.get(raw[:length], ()):
                if line.template.has_literals(raw) and line.template.match(raw) is not None:
                    yield owner, line


def _check_table(format: Format, table: HeaderTable) -> None:
    """Check that each line of a table's samples is part of the table, and that the lines named in `among` exist."""
    where = f"{format.path}, table `{table.name}`"
    names = [x.name for x in format.lines]
    for name in table.among:
        if name not in names:
            raise FormatError(
                f"`among` names `{name}`, which is not a line of the file", where, did_you_mean(name, names)
            )
    for block in table.blocks:
        text = table.unread_line(block)
        if text is not None:
            raise FormatError(f"no part of the table reads `{text}`", where)


@cache
def sample_lines(format: Format) -> tuple[Line, ...]:
    """Return the Lines that the samples of a format's families show."""
    return tuple(line for family in format.families for sample in family.samples for line in family.lines(sample))


def _miss(family: Family, sample: str) -> str:
    """Return help for a sample that its family does not read."""
    return "its beginning matches: look at what follows" if _begins(family, sample) else "its beginning does not match"


def _begins(family: Family, text: str) -> bool:
    """Return whether a string begins as the lines of a family."""
    return _beginning(family.pattern).match(text.encode("utf-8", "surrogateescape")) is not None


@cache
def _beginning(pattern: str) -> re.Pattern[bytes]:
    return re.compile(f"(?s:{pattern})".encode())


def _reads_by_text(line: Line, is_own: bool) -> bool:
    """Return whether a line reads all lines of its shape, in logs of the format of the samples."""
    by_text = line.role != "body" and not line.under_header
    return by_text and (is_own or line.is_telling or not line.read)  # else it is read in logs of its format only


def _check_sample(format: Format, line: Line, sample: str, readers: _Readers, family: Family | None = None) -> None:
    """Check that a line reads its sample and writes it back, and that none of the other lines reads it.

    `family`: the family of the line, if it has one; lines of the same name in its format are no others.
    """
    where = f"{format.path}, line `{line.name}`"
    values = line.template.match(sample)
    if values is None:
        miss = line.template.explain(sample)
        assert miss is not None
        raise FormatError(f"the sample does not match the template\n{caret(sample, miss)}", where)
    lossy = any(f.is_dropped or f.type == "q" for f in line.template.fields)
    rendered = sample if lossy else line.template.render(values)
    if line.read and rendered != sample:
        raise FormatError(
            f"the sample is written back differently\n{sample}\n{rendered}",
            where,
            "give the field its printed form",
        )
    _check_identity(line, sample, values, where)
    for owner, other in readers.of(sample.encode("utf-8", "surrogateescape").rstrip(b" \t")):
        is_own = other is line or (family is not None and owner is format and other.name == family.name)
        if not is_own and not other.otherwise:
            raise _ambiguous(other.name, owner, sample, where)


def _check_families(
    format: Format, name: str, sample: str, every: Iterable[Format], family_of_sample: Family | None
) -> None:
    """Check that no other family reads the whole sample: in its own format no family before its own."""
    for owner in every:
        for family in owner.families:
            if family is family_of_sample:
                break
            in_question = owner is format or family.proves_format
            if not in_question or not _begins(family, sample):
                continue
            if any(not line.partial for line in family.lines(sample)):
                raise _ambiguous(family.name, owner, sample, f"{format.path}, line `{name}`")


def _ambiguous(name: str, owner: Format, sample: str, where: str) -> FormatError:
    reason = f"the sample also matches line `{name}` of {owner.name}\n{sample}"
    return FormatError(reason, where, "make one of the two templates more specific")


def _check_identity(line: Line, sample: str, values: Mapping[str, Value], where: str) -> None:
    """Check that a line's `check` holds for its sample at the printed precision, if the sample has all its fields."""
    if line.check is None or not all(name in values for name in line.check[1].names):
        return
    left, expr = line.check
    spec = next(f for f in line.template.fields if f.name == left)
    expected = spec.render(expr(values))
    if expected != spec.render(values[left]):
        raise FormatError(f"`check` does not hold for the sample: {left} should be {expected.strip()}\n{sample}", where)
