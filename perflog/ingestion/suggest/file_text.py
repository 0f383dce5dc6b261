"""Writes the content of the suggested format file, with a comment at each guess."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from perflog.formats.template import literal
from perflog.formats.tokens import OPAQUE
from perflog.grouping import grouped
from perflog.ingestion.suggest.headed_tables import TableDraft
from perflog.ingestion.suggest.json_objects import JsonDraft
from perflog.ingestion.suggest.line_draft import LITERAL, TEXT, LineDraft

_NO_FIGURES = "part of a date, a name, an address or a line of the source"


def quoted(text: str) -> str:
    """Return a value as a TOML string, without escapes if possible, so that users recognise lines of their log."""
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _strings(texts: Sequence[str]) -> str:
    """Return one TOML string, or a list of them with one string per line."""
    if len(texts) == 1:
        return quoted(texts[0])
    return "[\n" + "".join(f"  {quoted(x)},\n" for x in texts) + "]"


def file_text(
    head: Iterable[str], keys: Iterable[str], lines: Sequence[tuple[LineDraft, list[str]]], undescribed: Sequence[str]
) -> str:
    """Return the content of a format file.

    Args:
        head: The comments at the top.
        keys: The top-level keys.
        lines: The entries, each with its samples.
        undescribed: The comments at the end: lines of the log that the file does not describe.
    """
    parts = ["\n".join(f"# {x}".rstrip() for x in head), "\n".join(keys)]
    parts += [_entry(line, samples) for line, samples in lines]
    if undescribed:
        parts.append("\n".join(f"# {x}".rstrip() for x in undescribed))
    return "\n\n".join(parts) + "\n"


def _entry(line: LineDraft, samples: list[str]) -> str:
    """Return one entry as TOML."""
    count = f"# {line.shape.count} line{'s' if line.shape.count != 1 else ''}, the first is line {line.shape.first}"
    if isinstance(line, JsonDraft):
        return _json_entry(line, samples, count)
    if isinstance(line, TableDraft):
        return _table_entry(line, samples, count)
    if not line.read:
        rows = [f"{'[[context]]':31}{count}", f"text   = {quoted(line.text)}", *_dropped(line)]
        return "\n".join([*rows, f"sample = {_strings(samples)}"])
    rows = [f"{'[[line]]':31}{count}", *_name_and_table(line), f"text   = {quoted(line.text)}", *_units(line)]
    rows += _dropped(line)
    return "\n".join([*rows, f"sample = {_strings(samples)}"])


def _json_entry(line: JsonDraft, samples: list[str], count: str) -> str:
    rows = [f"{'[[json]]':31}{count}", *_name_and_table(line)]
    rows += [f"head   = {quoted(line.head_text)}"] if line.head_text else []
    when = ", ".join(f"{quoted(path)} = {quoted(value)}" for path, value in line.when.items())
    rows += [f"when   = {{ {when} }}"] if when else []
    rows += _dropped_by_name(line.dropped)
    rows += [*_units(line), f"sample = {_strings(samples)}", "", "[json.keys]"]
    return "\n".join(rows + [f"{quoted(path)} = {quoted(name)}" for path, name in line.keys.items()])


def _table_entry(line: TableDraft, samples: list[str], count: str) -> str:
    rows = [f"{'[[table]]':31}{count}", *_name_and_table(line), f"style  = {quoted(line.style)}"]
    sample = f'"""\n{line.block}\n"""'
    if "\\" in line.block or '""' in line.block or not line.block.replace("\n", "").isprintable():
        sample = _strings(samples)
    rows += [f"needs  = {_list(line.needs)}", *_unit_key(line.units), *_dropped_by_name(line.dropped)]
    rows += [f"sample = {sample}", "", "[table.columns]"]
    width = min(max(len(quoted(name)) for name in line.keys), 40)
    rows += [f"{quoted(name):{width}} = {_list(forms)}" for name, forms in line.keys.items()]
    for number, text in enumerate(line.comments, 1):
        template = quoted(literal(text))
        rows += ["", "[[table.inner]]", f'name   = "comment_{number}"']
        rows += [f"text   = {template}", f"sample = {quoted(text)}"]
    return "\n".join(rows)


def _list(texts: Sequence[str]) -> str:
    """Return a TOML list on one line."""
    return f"[{', '.join(quoted(x) for x in texts)}]"


def _name_and_table(line: LineDraft) -> list[str]:
    """Return the keys that name the entry and its table, and the keys that locate it in the run."""
    rows = [f"name   = {quoted(line.name)}"]
    table = f'table  = "{line.table}"'
    rows.append(f"{table:30} # guess: {'; '.join(line.why)}" if line.why else table)
    if line.closes:
        rows.append('closes = "step"')
    if line.table == "steps":
        rows.append('covers = "unknown"             # 1 step if each is printed, else unknown')
    if line.is_outside:
        rows.append('outside = "step"')
    if line.within:
        rows.append(f'within = "{line.within}"')
    if line.unknown:
        rows.append("unknown = { " + ", ".join(f"{name} = {number}" for name, number in line.unknown.items()) + " }")
    if line.before:
        rows.append('before = "run"                 # guess: after it, steps count from the start again')
    run_fields = _run_fields(line)
    if run_fields:
        rows.append(f"run    = {_list(run_fields)}")
    return rows


def _run_fields(line: LineDraft) -> list[str]:
    """Return the fields that describe the run although the line is not about it.

    These are totals, as the 10 of `3/10`, and the words of a summary.
    """
    if line.table == "summaries":
        return [s.named.name for s in line.slots if s.kind == TEXT and not s.dropped]
    if line.table != "steps":
        return []
    return [n for n in line.names if n in ("steps", "epochs", "batches", "iterations", "iters", "world_size")]


def _dropped(line: LineDraft) -> list[str]:
    """Return the key `dropped` if the line drops digits, all of them parts of dates, names and source lines."""
    dropped = [s for s in line.slots if s.field == "_" and s.kind != LITERAL]
    has_digits = any(char.isdigit() for s in dropped for text in s.texts for char in text)
    return [f"dropped = {quoted(_NO_FIGURES)}"] if has_digits and all(s.kind == OPAQUE for s in dropped) else []


def _dropped_by_name(reasons: Mapping[str, str]) -> list[str]:
    """Return the key `dropped` with a reason for each name or path."""
    dropped = ", ".join(f"{quoted(name)} = {quoted(reason)}" for name, reason in reasons.items())
    return [f"dropped = {{ {dropped} }}"] if dropped else []


def _units(line: LineDraft) -> list[str]:
    """Return the key `unit`, and a comment with the guesses: names and units that the log does not print."""
    numbers = line.numbers
    if isinstance(line, JsonDraft):  # the others keep their printed path and have no unit
        numbers = [slot for path, slot in line.paths.items() if path in line.keys]
    fields = [s for s in numbers if s.named.unit and not s.prints_unit]
    rows = _unit_key({s.named.name: s.named.unit for s in fields})
    names_by_reason = grouped((slot.named.why, slot.named.name) for slot in numbers if slot.named.why)
    if names_by_reason:
        rows.append("# guess: " + "; ".join(f"{', '.join(names)}: {why}" for why, names in names_by_reason.items()))
    return rows


def _unit_key(units: Mapping[str, str]) -> list[str]:
    """Return the key `unit`, if a field has one."""
    return ["unit   = { " + ", ".join(f'{name} = "{unit}"' for name, unit in units.items()) + " }"] if units else []
