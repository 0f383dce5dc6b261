"""Find, load and check format files (the grammar is in parsers/README.md).

Built-in formats come through the same entry-point group as other packages': `perflog.formats`, whose entries are
functions that return a folder of TOML files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from perflog.bundled import bundled
from perflog.entry_points import registered
from perflog.errors import FormatError, UsageError, did_you_mean
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.loader.format_file import load
from perflog.formats.model import Family, Format, Line
from perflog.formats.template import Value, caret

COMMON = "common"
"""Name of the file whose contexts and blocks apply beside every format."""


def check_samples(format: Format, others: Iterable[Format] = ()) -> None:
    """Each sample matches its own line and no other, of this format or of `others`, and is written back identically.

    Raises FormatError with the near miss, caret under the place where the match stopped.
    """
    every = [format, *others]
    rest = [(f, x) for f in every for x in (*f.lines, *shown(f))]
    for table in (x for x in format.families if isinstance(x, HeaderTable)):
        _check_table(format, table)
    for line in format.lines:
        for sample in line.samples:
            _check_sample(format, line, sample, rest)
            _check_families(format, line.name, sample, every, None)
    for family in format.families:
        for sample in family.samples:
            lines = family.lines(sample)
            own = next((x for x in lines if x.template.match(sample) is not None), None)
            if own is None:
                where = f"{format.path}, line `{family.name}`"
                raise FormatError(f"the sample is none of `{family.text}`\n{sample}", where, _miss(family, sample))
            _check_sample(format, own, sample, [x for x in rest if x[1].name != family.name or x[0] is not format])
            _check_families(format, family.name, sample, every, family)


def _check_table(format: Format, table: HeaderTable) -> None:
    """Each line of a table's samples is a piece of it, and the lines that may stand among its rows are there."""
    where = f"{format.path}, table `{table.name}`"
    names = [x.name for x in format.lines]
    for name in table.among:
        if name not in names:
            raise FormatError(f"`among` names `{name}`, no line of the file", where, did_you_mean(name, names))
    for block in table.blocks:
        text = table.unread_line(block)
        if text is not None:
            raise FormatError(f"no piece of the table reads `{text}`", where)


def shown(format: Format) -> list[Line]:
    """The Lines that the samples of a format's families show."""
    return [x for family in format.families for sample in family.samples for x in family.lines(sample)]


def _miss(family: Family, sample: str) -> str:
    """What is wrong with a sample, as far as can be told."""
    begins = re.match(f"(?s:{family.pattern})".encode(), sample.encode()) is not None
    return "it begins as it should: look at what follows" if begins else "it does not begin so"


def _check_sample(format: Format, line: Line, sample: str, rest: Iterable[tuple[Format, Line]]) -> None:
    where = f"{format.path}, line `{line.name}`"
    values = line.template.match(sample)
    if values is None:
        miss = line.template.explain(sample)
        assert miss is not None
        raise FormatError(f"the sample does not match the text\n{caret(sample, miss)}", where)
    lossy = any(f.name == "_" or f.type == "q" for f in line.template.fields)
    written = sample if lossy else line.template.render(values)
    if line.read and written != sample:
        raise FormatError(
            f"the sample is written back differently\n{sample}\n{written}",
            where,
            "give the field its printed form",
        )
    _check_identity(line, sample, values, where)
    for owner, other in rest:
        if other is not line and other.role != "body" and other.template.match(sample) is not None:
            raise _twice(other.name, owner, sample, where)


def _check_families(format: Format, name: str, sample: str, every: Iterable[Format], own: Family | None) -> None:
    """No other family takes the sample: of its own format none that stands before its own."""
    for owner in every:
        for family in owner.families:
            if family is own:
                break
            if (owner is format or family.proves_format) and family.lines(sample):
                raise _twice(family.name, owner, sample, f"{format.path}, line `{name}`")


def _twice(name: str, owner: Format, sample: str, where: str) -> FormatError:
    reason = f"the sample also matches line `{name}` of {owner.name}\n{sample}"
    return FormatError(reason, where, "make one of the two texts more particular")


def _check_identity(line: Line, sample: str, values: Mapping[str, Value], where: str) -> None:
    """A line's `check` holds for its sample, at the printed precision, where the sample has all it speaks of."""
    if line.check is None or not all(name in values for name in line.check[1].names):
        return
    left, expr = line.check
    spec = next(f for f in line.template.fields if f.name == left)
    expected = spec.render(expr(values))
    if expected != spec.render(values[left]):
        raise FormatError(f"`check` does not hold for the sample: {left} should be {expected.strip()}\n{sample}", where)


def builtin() -> Path:
    """Folder of the built-in format files: in the package when installed, beside it in a checkout."""
    return bundled("parsers")


@cache
def known() -> dict[str, Format]:
    """All formats by name: built-in ones, and those of other installed packages. `common` is among them."""
    folders = [builtin()]
    for entry in registered("perflog.formats"):
        try:
            folders.append(Path(entry.load()()))
        except Exception as error:
            raise FormatError(f"the formats of another package cannot be loaded: {error!r}", entry.value) from error
    found: dict[str, Format] = {}
    for folder in dict.fromkeys(f.resolve() for f in folders):
        for path in sorted(folder.glob("*.toml")):
            if path.stem in found:
                raise FormatError(f"two formats are named `{path.stem}`", str(path), str(found[path.stem].path))
            found[path.stem] = load(path)
    return found


def named_formats(names: Iterable[str]) -> list[Format]:
    """Formats by name, or by file if the name ends in .toml."""
    return [get(name) for name in names]


def get(name: str) -> Format:
    """A format by name, or a format file by path: a file is checked against all known formats first."""
    if name.endswith(".toml"):
        format = load(Path(name))
        check_samples(format, [f for f in known().values() if f.name != format.name])
        return format
    if name not in known():
        raise UsageError(f"no format is named `{name}`", help=did_you_mean(name, known()))
    return known()[name]
