"""The format file as text, guesses marked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from perflog.ingestion.suggest.json_objects import JsonDraft
from perflog.ingestion.suggest.key_value import KeyValueDraft, needs
from perflog.ingestion.suggest.line_draft import TEXT, LineDraft


def quoted(text: str) -> str:
    """A TOML string: as it is, where that can be, so that a line of the log can be recognised."""
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def listed(texts: Sequence[str]) -> str:
    """One string, or a list of them."""
    if len(texts) == 1:
        return quoted(texts[0])
    return "[\n" + "".join(f"  {quoted(x)},\n" for x in texts) + "]"


def file(
    head: Iterable[str], keys: Iterable[str], lines: Sequence[tuple[LineDraft, list[str]]], left: Sequence[str]
) -> str:
    """A whole format file: comments, top keys, lines and contexts with their samples, what is left."""
    parts = ["\n".join(f"# {x}".rstrip() for x in head), "\n".join(keys)]
    parts += [_entry(line, samples) for line, samples in lines]
    if left:
        parts.append("\n".join(f"# {x}".rstrip() for x in left))
    return "\n\n".join(parts) + "\n"


def _entry(line: LineDraft, samples: list[str]) -> str:
    seen = f"# {line.shape.count} line{'s' if line.shape.count != 1 else ''}, the first is line {line.shape.first}"
    if isinstance(line, KeyValueDraft):
        return _pairs(line, samples, seen)
    if isinstance(line, JsonDraft):
        return _object(line, samples, seen)
    if not line.read:
        return f"{'[[context]]':31}{seen}\ntext   = {quoted(line.text)}\nsample = {listed(samples)}"
    rows = [f"{'[[line]]':31}{seen}", *_goes(line), f"text   = {quoted(line.text)}", *_units(line)]
    return "\n".join([*rows, f"sample = {listed(samples)}"])


def _pairs(line: KeyValueDraft, samples: list[str], seen: str) -> str:
    rows = [
        f"{'[[pairs]]':31}{seen}",
        *_goes(line),
        f"head   = {quoted(line.head_text)}",
        f"pair   = {quoted(line.way)}",
    ]
    if needs(line):
        rows.append(f"needs  = {_row(needs(line))}")
    rows += [*_units(line), f"sample = {listed(samples)}", "", "[pairs.keys]"]
    keys = line.keys()
    width = min(max(len(quoted(key)) for key in keys), 40)
    rows += [f"{quoted(key):{width}} = {quoted(x[0]) if len(x) == 1 else _row(x)}" for key, x in keys.items()]
    return "\n".join(rows)


def _object(line: JsonDraft, samples: list[str], seen: str) -> str:
    rows = [f"{'[[json]]':31}{seen}", *_goes(line)]
    rows += [f"head   = {quoted(line.head_text)}"] if line.head_text else []
    when = ", ".join(f"{quoted(path)} = {quoted(value)}" for path, value in line.when.items())
    rows += [f"when   = {{ {when} }}"] if when else []
    rows += [*(_units(line) if "*" not in line.keys else []), f"sample = {listed(samples)}", "", "[json.keys]"]
    return "\n".join(rows + [f"{quoted(path)} = {quoted(name)}" for path, name in line.keys.items()])


def _row(texts: Sequence[str]) -> str:
    return f"[{', '.join(quoted(x) for x in texts)}]"


def _goes(line: LineDraft) -> list[str]:
    """The keys that say what the line is and where its values go."""
    rows = [f"name   = {quoted(line.name)}"]
    table = f'table  = "{line.table}"'
    rows.append(f"{table:30} # guess: {'; '.join(line.why)}" if line.why else table)
    if line.closes:
        rows.append('closes = "step"')
    if line.before:
        rows.append('before = "run"                 # guess: behind it steps begin anew')
    taken = _run(line)
    if taken:
        rows.append(f"run    = {_row(taken)}")
    return rows


def _run(line: LineDraft) -> list[str]:
    """Fields that describe the run although the line goes elsewhere: the 10 of `3/10`, words of a summary."""
    if line.table == "summaries":
        return [s.named.name for s in line.slots if s.kind == TEXT and not s.dropped]
    if line.table != "steps":
        return []
    return [n for n in line.names if n in ("steps", "epochs", "batches", "iterations", "iters", "world_size")]


def _units(line: LineDraft) -> list[str]:
    """The key `unit`, and a comment for each that is a guess."""
    fields = [s for s in line.numbers if s.named.unit and s.spec != "t"]
    rows = []
    if fields:
        rows.append("unit   = { " + ", ".join(f'{s.named.name} = "{s.named.unit}"' for s in fields) + " }")
    whys: dict[str, list[str]] = {}
    for slot in line.numbers:
        if slot.named.why:
            whys.setdefault(slot.named.why, []).append(slot.named.name)
    if whys:
        rows.append("# guess: " + "; ".join(f"{', '.join(names)}: {why}" for why, names in whys.items()))
    return rows
