"""Lines that are known only in part: with a prefix, a suffix, or a missing number.

A log shows them as it shows lines of a family: each becomes a Line. Its template is the template of the known line,
with a field for what surrounds it. Only lines that nothing else reads are tried. The best reading leaves the fewest
bytes unread.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property

from msgspec.structs import replace

from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.families.missing_values import pattern_with_gaps, without_missing
from perflog.formats.model import MIN_LETTERS, Family, Format, Line
from perflog.formats.openings import Opening
from perflog.formats.surroundings import APPENDIX, PREFIX, prefix_ends
from perflog.formats.template import DECLARED_DROPPED, UNNAMED, Template, unnamed
from perflog.lazy_patterns import kept_pattern, lazy_pattern

_APPENDIX = lazy_pattern(APPENDIX.encode())
_PREFIX_FIELD, _APPENDIX_FIELD = "{_:p}", "{_:a}"
_RANK_OF_WORLD = lazy_pattern(rb"(?P<begin>\[[Rr]ank[ _=:-]?)[0-9]{1,7}(?P<of> ?/ ?| of )[0-9]{1,7}\]")
"""The rank and the number of ranks in a prefix: `[rank-7/8]`."""


class PartialLines:
    """The partly known lines of a format, as a family."""

    name = "partial line"
    samples: tuple[str, ...] = ()
    text = ""

    def __init__(self, form: Format) -> None:
        self._lines = [line for line in form.lines if _is_distinct(line)]
        self._families = [x for x in form.families if x.proves_format and not _is_bare_header(x)]

    def __bool__(self) -> bool:
        """Return whether the format has lines that can be known by a part."""
        return bool(self._lines or self._families)

    @property
    def proves_format(self) -> bool:
        return True

    @property
    def openings(self) -> tuple[Opening, ...]:
        return ()

    @property
    def required_literal(self) -> bytes:
        return b""

    @cached_property
    def literals(self) -> frozenset[bytes]:
        """Strings. Each of the lines contains one of them."""
        from_lines = (line.template.required_literal for line in self._lines)
        return frozenset([*from_lines, *map(_literal_of, self._families)])

    @cached_property
    def pattern(self) -> str:
        return self.pattern_with(self.literals)

    def pattern_with(self, literals: Container[bytes], texts: Mapping[bytes, Sequence[int]] | None = None) -> str:
        """Return the pattern of the lines with one of these literals: a pattern of all lines takes long to compile.

        With `texts`, a few strings and where their prefixes may end, only of what may be in one of them: lines with all
        their literals, and families that begin after a prefix.
        """
        held = [_without_blanks(x.template) for x in self._lines if x.template.required_literal in literals]
        if texts is not None:
            held = [template for template in held if any(map(template.may_stand_in, texts))]
        lines = "|".join(unnamed(pattern_with_gaps(template)) for template in held)
        following = list(dict.fromkeys(x.pattern for x in self._families if _literal_of(x) in literals))
        if texts is not None:
            after = [(text, end) for text, ends in texts.items() for end in ends]
            following = [p for p in following if any(kept_pattern(f"(?s:{p})").match(text, end) for text, end in after)]
        families = "|".join(following)
        from_lines = [rf"(?:{PREFIX})?[ \t]*(?:{lines})(?:{APPENDIX})?[ \t]*$"] if lines else []
        return "|".join([*from_lines, *([rf"{PREFIX}(?:{families})"] if families else [])])

    def lines(self, text: str) -> tuple[Line, ...]:
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        for begin in (0, *prefix_ends(raw)):
            lines = self._lines_after(raw[begin:], _front_of(raw[:begin]))
            if lines:
                return lines
        return ()

    def _lines_after(self, raw: bytes, front: str) -> tuple[Line, ...]:
        """Return the Lines of a string without its prefix, or of a whole line: `front` is ""."""
        if front:
            for line in self._holding(self._lines, raw):
                if line.template.match(raw) is not None:
                    return (_surrounded(line, line.template, front),)
            text = raw.decode("utf-8", "surrogateescape")
            for family in self._families:
                may_begin = family.required_literal in raw and kept_pattern(f"(?s:{family.pattern})").match(raw)
                if may_begin and (lines := family.lines(text)):
                    return tuple(_surrounded(line, line.template, front) for line in lines)
        candidates = (x for line in self._holding(self._lines, raw) if line.read for x in _readings(line, raw))
        best = min(candidates, key=lambda x: x[2], default=None)
        return () if best is None else (_surrounded(best[0], best[1], front, _APPENDIX_FIELD if best[2] else ""),)

    @staticmethod
    def _holding(lines: Iterable[Line], raw: bytes) -> Iterator[Line]:
        return (line for line in lines if line.template.required_literal in raw)


def _front_of(prefix: bytes) -> str:
    """Return the template string of a prefix: a field for all of it, apart from a rank that it prints."""
    printed = _RANK_OF_WORLD.search(prefix)
    if printed is None:
        return _PREFIX_FIELD if prefix else ""
    before, after = prefix[: printed.start()], prefix[printed.end() :]
    rank = f"{printed['begin'].decode()}{{rank:d}}{printed['of'].decode()}{{world_size:d}}]"
    around = [_PREFIX_FIELD if part.strip(b" \t") else part.decode() for part in (before, after)]
    return rank.join(around)


def _is_distinct(line: Line) -> bool:
    """Return whether the line is known by more than its position among others."""
    return line.role in ("line", "context") and not line.under_header and line.template.letters >= MIN_LETTERS


def _is_bare_header(family: Family) -> bool:
    """Return whether only the names of its columns identify a table: words after a prefix may be a sentence."""
    return isinstance(family, HeaderTable) and family.title is None


def _literal_of(family: Family) -> bytes:
    return family.required_literal or b"{"


@cache
def _without_blanks(template: Template) -> Template:
    return Template(template.text.lstrip(" "))


def _readings(line: Line, raw: bytes) -> Iterator[tuple[Line, Template, int]]:
    """Yield the line, its template for the beginning of a string, and the number of bytes after that beginning."""
    match = line.template.regex.match(raw)
    if match is None:
        template, end = without_missing(line.template, raw) or (None, 0)
    else:
        template, end = line.template, match.end()
    named = template is not None and any(f.numeric and not f.is_dropped for f in template.fields)
    if template is not None and named and (end == len(raw) or _APPENDIX.fullmatch(raw, end)):
        yield line, template, len(raw) - end


def _surrounded(line: Line, template: Template, front: str = "", after: str = "") -> Line:
    """Return a line with a template of its own, and fields for what surrounds it.

    The reason why a line drops numbers does not apply to what surrounds it.
    """
    if {"rank", "world_size"} & {*template.names, *line.compute, *line.set}:
        front = _PREFIX_FIELD if front else ""
    text = template.text.lstrip(" ") if front else template.text
    text = text.rstrip(" ") if after else text
    dropped = line.dropped
    if UNNAMED in dropped:
        text = text.replace(f"{{{UNNAMED}:", f"{{{DECLARED_DROPPED}:")
        dropped = {DECLARED_DROPPED: "; ".join(dict.fromkeys(dropped.values()))}
    return replace(
        _without_fields(line, {*line.template.names} - {*template.names}),
        template=Template(front + text + after),
        samples=(),
        dropped=dropped,
        partial=True,
        after_prefix=bool(front) and not after and template is line.template,
        run=(*line.run, "world_size") if "{world_size:" in front else line.run,
        object=None,
        by_object=False,
    )


def _without_fields(line: Line, missing: set[str]) -> Line:
    """Return a line without the declarations that need some of its fields."""
    if not missing:
        return line
    return replace(
        line,
        unit={name: unit for name, unit in line.unit.items() if name not in missing},
        unknown={name: number for name, number in line.unknown.items() if name not in missing},
        compute={name: formula for name, formula in line.compute.items() if missing.isdisjoint(formula.names)},
        map=tuple(row for row in line.map if row[1] not in missing),
        run=tuple(name for name in line.run if name not in missing),
        check=line.check if line.check and missing.isdisjoint((line.check[0], *line.check[1].names)) else None,
        clock=tuple(name for name in line.clock if name not in missing),
        within=None if line.within in missing else line.within,
        again=line.again if line.again and missing.isdisjoint(line.again.fields.values()) else None,
    )
