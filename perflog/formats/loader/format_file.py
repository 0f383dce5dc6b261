"""Loads one format file. The grammar is in parsers/README.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from perflog.errors import FormatError
from perflog.formats.expressions import Expression
from perflog.formats.families.base import reasons
from perflog.formats.flops import CONVENTIONS
from perflog.formats.loader.families import LOADERS, families
from perflog.formats.loader.lines import line as line_of
from perflog.formats.loader.toml import Entry, File, entries
from perflog.formats.model import CLOCKS, KINDS, QUANTITIES, WHOLES, Fingerprint, Format, Line, Phase, Rate
from perflog.formats.template import Template

ANY_LINE = "{_:s}"
"""Template of the lines inside a block at the start of a log."""

_NOT_TIMED = "no line times a phase `{}`"


def _block(entry: Entry, is_tested: bool) -> list[Line]:
    """Load a block: the lines that begin it, end it, and are inside. Its sample is a whole block."""
    name = entry.get("name", str, required=True)
    at, keep = entry.get("at", str), entry.get("keep", bool, True)
    if at not in (None, "start"):
        raise entry.error(f"`at` cannot be `{at}`", "at", 'the only value is "start": the start of the log')
    body = entry.texts("body", required=not ("end" in entry.data or at))
    if at and body:
        raise entry.error("a block at the start of the log has all lines up to its end", "body", "leave out `body`")
    roles = [("begin", text) for text in entry.texts("begin", required=True)]
    roles += [("end", text) for text in entry.texts("end", required=at is not None)]
    roles += [("body", text) for text in (ANY_LINE,) if at]
    roles += [("body", text) for text in body]  # last: it may also read an end
    in_place = {role for role in ("begin", "body", "end") if at or (role == "body" and "end" not in entry.data)}
    lines = [
        Line(name, entry.template(role, text), role=role, under_header=role in in_place, keep=keep)
        for role, text in roles
    ]
    sample = entry.get("sample", str, required=True)
    for row in () if is_tested else sample.splitlines():
        if row.strip() and not any(x.template.match(row) is not None for x in lines):
            raise entry.error(f"no line of the block reads `{row}`", "sample")
    return lines


def _fingerprint(entry: Entry, lines: Mapping[str, Line]) -> Fingerprint:
    """Load a rule that recognises ranks by a number."""
    vote, reads = entry.get("vote", dict, required=True), entry.get("reads", dict, required=True)
    voter = lines[entry.named("vote", vote.get("line"), lines)]
    if "after" in vote:
        entry.named("vote", vote["after"], lines)
    keys = [vote["key"]] if isinstance(vote.get("key"), str) else vote.get("key")
    if not isinstance(keys, list) or not keys:
        raise entry.error("`vote` has no `key`", "vote", "name the field that identifies the rank")
    fields = {}
    for name, value in reads.items():
        line = lines[entry.named("reads", name, lines)]
        fields[name] = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
        entry.refuse_unknown("reads", fields[name], line.template.names, f"line `{name}` has no field `{{}}`")
        if len(fields[name]) != len(keys):
            raise entry.error(f"`{name}` must name {len(keys)} fields, as many as the vote's key", "reads")
    return Fingerprint(
        name=entry.get("name", str, required=True),
        vote_line=vote["line"],
        vote_key=tuple(entry.expr("vote", key, voter.template.names) for key in keys),
        after=vote.get("after"),
        reads=fields,
    )


def _label(top: Entry) -> str | None:
    """Load the template of run labels: a string with {names} of settings."""
    label: str | None = top.get("label", str)
    if label is not None and re.search(r"[{}]", re.sub(r"\{\w+\}", "", label)):
        raise top.error(f"`{label}` is not a label", "label", "write a string with {names} of settings")
    return label


def _phases(file: File, lines: list[Line]) -> tuple[Phase, ...]:
    """Load what the phases of a step mean, in the order of the file."""
    timed = {n for line in lines if line.table == "phases" for n in line.template.names}
    in_family = any(True for kind in LOADERS for _ in entries(file, kind))
    names_any = any("phase" in line.template.names for line in lines) or file.data.get("library") is True
    if in_family or names_any:  # the log names its phases: any name is fine
        timed |= {name for entry in entries(file, "phase") for name in entry.texts("name")}
    phases: dict[str, Phase] = {}
    for entry in entries(file, "phase"):
        names = entry.texts("name", required=True)
        for name in names:
            if name in phases:
                raise entry.error(f"phase `{name}` is declared twice", "name")
        entry.refuse_unknown("name", names, timed, _NOT_TIMED)
        of, kind = entry.texts("of") or ("step",), entry.get("kind", str, "compute")
        clock, exposes = entry.get("clock", str), entry.get("exposes", str)
        wholes = timed | set(WHOLES)
        entry.refuse_unknown("of", of, wholes, "`{}` is not a phase")
        entry.refuse_unknown("exposes", (exposes,), wholes, "`{}` is not a phase")
        entry.refuse_unknown("kind", (kind,), KINDS, "`{}` is not a kind of a phase")
        entry.refuse_unknown("clock", (clock,), CLOCKS, "`{}` is not a clock of a phase")
        hidden, says = entry.get("hidden", bool, False), entry.get("says", str, "")
        phases |= {name: Phase(name, of, kind, hidden, exposes, clock, says) for name in names}
    return tuple(phases.values())


def _rates(file: File, lines: list[Line], names: set[str]) -> tuple[Rate, ...]:
    """Load the `[[rate]]` entries: the work of a rank in the time of some phases, or of the whole step.

    Args:
        file: The format file.
        lines: Its lines; a phase that is timed is a field of a line of table `phases`.
        names: The settings that expressions may use.
    """
    timed = {n for line in lines if line.table == "phases" for n in line.template.names} | set(WHOLES)
    rates = []
    for entry in entries(file, "rate"):
        phases = entry.texts("of", required=True)
        entry.refuse_unknown("of", phases, timed, _NOT_TIMED)
        work = tuple(entry.expr("work", text, names) for text in entry.texts("work", required=True))
        # FLOP/s of plain matrix products of the same shapes, to compare with
        plain = tuple(entry.expr("plain", text, names) for text in entry.texts("plain"))
        rates.append(Rate(entry.get("name", str, required=True), phases, work, plain))
    return tuple(rates)


def _flops(top: Entry) -> str | None:
    """Load the FLOP convention of the printed rate."""
    id: str | None = top.get("flops", str)
    top.refuse_unknown("flops", (id,), CONVENTIONS, "there is no FLOP convention `{}`")
    return id


def _quantities(top: Entry) -> dict[str, tuple[Expression, ...]]:
    """Load the quantities that metrics ask for, each an expression of the run's settings, or several to choose from."""
    quantities = top.get("quantities", dict, {})
    for name in quantities:
        top.refuse_unknown(name, (name,), QUANTITIES, "unknown quantity `{}`")
    given = {name: of if isinstance(of, list) else [of] for name, of in quantities.items()}
    return {name: tuple(top.expr(name, text) for text in texts) for name, texts in given.items()}


def _file_names(top: Entry) -> tuple[Template, ...]:
    """Load what the names of files say of their lines."""
    names = tuple(Template(text) for text in top.texts("file_names"))
    for name in names:
        for field in name.fields:
            if not field.is_dropped and (field.name not in ("rank", "step") or field.type != "d"):
                raise top.error(f"`{field.name}` in `file_names`", "file_names", "its fields are {step:d} and {rank:d}")
    return names


def _program_of(title: str) -> str:
    """Return the name of the program at the start of a title: `Tool (of a kind): its lines`."""
    return re.split(r" \(|[:,]", title, maxsplit=1)[0].strip()


def load(path: Path, is_tested: bool = False) -> Format:
    """Load a format file and check all of it except its samples (see `sample_checks.check_samples`).

    Args:
        path: The TOML file. Its name without the ending is the format's name.
        is_tested: Whether the file is known to be right. The samples of its blocks are then not read, which takes long.

    Raises:
        FormatError: The file is wrong. The error names the line and what to do.
    """
    file = File(path)
    top = Entry(file, "", 0, file.data)
    scopes = top.texts("scopes") or ("run",)
    names = {n for e in entries(file, "line") for n in e.template("text").names}
    lines = [line_of(entry, scopes, names) for entry in entries(file, "line")]
    by_name: dict[str, Line] = {}
    for index, line in enumerate(lines):
        if line.name in by_name:
            where = file.where("line", index, "name")
            raise FormatError(f"two lines are named `{line.name}`", where, "names are unique in a file")
        by_name[line.name] = line
    for entry in entries(file, "context"):
        text = entry.template("text")
        reason = entry.get("dropped", str)
        dropped = reasons({"*": reason} if reason else {})
        samples, warns = entry.texts("sample", required=True), bool(entry.get("warns", bool))
        otherwise = bool(entry.get("otherwise", bool))
        line = Line(text.text, text, samples, role="context", dropped=dropped, warns=warns, otherwise=otherwise)
        lines.append(line)
    for entry in entries(file, "block"):
        lines += _block(entry, is_tested)
    adjacent = []
    for entry in entries(file, "adjacent"):
        pair = entry.get("line", str, required=True), entry.get("after", str, required=True)
        adjacent.append((entry.named("line", pair[0], by_name), entry.named("after", pair[1], by_name)))
    return Format(
        name=path.stem,
        path=path,
        title=top.get("title", str, ""),
        source=top.get("source", str, ""),
        scopes=scopes,
        label=_label(top),
        lines=tuple(lines),
        fingerprints=tuple(_fingerprint(e, by_name) for e in entries(file, "fingerprint")),
        adjacent=tuple(adjacent),
        phases=_phases(file, lines),
        quantities=_quantities(top),
        rates=_rates(file, lines, names),
        flops=_flops(top),
        families=families(file, scopes, by_name),
        generic=top.get("generic", bool, False),
        library=top.get("library", bool, False),
        program=top.get("program", str, _program_of(top.get("title", str, ""))),
        incidental=top.texts("incidental"),
        result=top.get("result", str, None),
        either_way=top.texts("either_way"),
        of_one_gpu=top.texts("of_one_gpu"),
        file_names=_file_names(top),
        startup=top.get("startup", dict, {}),
    )
