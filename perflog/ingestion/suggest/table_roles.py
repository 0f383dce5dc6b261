"""Guesses the table of each line of a log from its words, how often it is printed, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

from msgspec.structs import replace

from perflog.formats.families.base import UniqueNames
from perflog.formats.number_units import has_statistics
from perflog.formats.tokens import NUMBER
from perflog.formats.vocabulary import CONFIGURED, COUNTER, EVALUATION, MOMENTS, PLACES, quantities_of
from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.headed_tables import TableDraft
from perflog.ingestion.suggest.json_objects import JsonDraft
from perflog.ingestion.suggest.line_draft import LITERAL, TEXT, UNSURE, LineDraft, Slot, words_of
from perflog.ingestion.suggest.naming import Named
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import PER_FIELD, column_for
from perflog.units import base_of

_SETTINGS = {"learning_rate", "memory"}  # not results of a step: a line with these alone is no step line
_PLACE = (*PLACES, "world_size")
_VALIDATION = lazy_pattern(rf"\b(?:{EVALUATION}|cv)(?:\b|_)")
_SUMMARY = lazy_pattern(r"\b(averages?|avg|mean|median|total|overall|final|finished|best|peak|std)\b|[a-z]*summary")
_PHASE = lazy_pattern(rf"(?<![\w./-])(?P<phase>{EVALUATION}|(?-i:CV))(?![\w/=.-])", re.IGNORECASE)
_NAMES_PHASE = lazy_pattern(rf"(?:^|_)(?:train|training|{EVALUATION}|cv)(?:_|$)")
_COUNTERS = lazy_pattern(rf"(?:.*_)?{COUNTER}(?:_printed|_id|_no|_idx)?")
_RESULT = lazy_pattern(
    r"loss|acc(?:uracy|urary)?\b|error|score|perplexity|\bppl\b|bleu|reward|precision|recall|\bm?ap\b|\biou\b|throughput"
    r"|speed|completed|passed|failed|skipped|\btime\b|elapsed|\btook\b|/s(?:ec(?:ond)?)?\b|per[ _]sec|it/s|\bused\b|fps"
)
_KNOBS = lazy_pattern(
    r"(?:.*_)?(?:lr|learning_rate|momentum|(?:weight_)?decay|dropout|beta\d?|eps(?:ilon)?|warm_?up|temperature|gamma|alpha"
    r"|params?|parameters|version|ratio|scale|threshold|coef|clip|seed)(?:_(?:thousands|millions|billions|printed))?"
)
_NO_CONFIGURATION = lazy_pattern(  # in a line about what happened
    r"\b(?:used|free|now|loaded|completed|processed|generated|prompt|eval|peak|ave|avg|finished|ran|started|starting|queue"
    r"|bound)\b"
)
_PROGRESS = lazy_pattern(
    r"(?:.*_)?(?:sampled|trained|since|cur|current|last|processed|elapsed|done|so_far)(?:_.*)?|.+_total|num_\w*updates"
)
_AVERAGE_OF = lazy_pattern(  # the words before a name that say that it is averaged over a run
    r"(?:^|(?<=_))(?:(?:averages?|avg|mean|median|overall|final|summary|synchronized|train|training|global|per|of|the)_)+"
)
_LEAST_LETTERS = 3  # of the first part of a name that is whole
_FEW = 16  # a line about the run may be printed so often: once by each rank


def assign_tables(drafts: Sequence[LineDraft], only_sure: bool = False) -> None:
    """Give each line with numbers its table, its name, and field names that suit the table.

    Args:
        drafts: The lines, in the order of the log. They are changed.
        only_sure: Whether numbers stay unread that neither their line nor a header names without doubt.
    """
    _doubt_torn_names(drafts)
    _leave_unsure(drafts if only_sure else ())
    lines = [d for d in drafts if d.read]
    open_lines = [d for d in lines if d.table is None]
    step_lines = _step_lines(open_lines)
    first_step = min((d.shape.first for d in lines if d in step_lines or d.table == "steps"), default=None)
    first_result = min((d.shape.first for d in open_lines if _is_result(d)), default=None)
    step_count = max((d.shape.count for d in step_lines), default=0)
    for line in open_lines:
        if line in step_lines:
            line.table, line.closes = "steps", True
            line.why.append("it prints the number of a step" + (" and times" if _has_times(line) else ""))
        else:
            is_object = isinstance(line, JsonDraft)
            line.table = "values" if is_object else _table(line, first_step, first_result, step_count)
    if not any(line.table != "runs" for line in lines):  # settings alone are no rows
        for line in lines:
            line.table, line.why = "values", []
    for line in open_lines:
        _suit_table(line)
    _leave_unsure(lines if only_sure else ())
    for line in lines:
        _resolve_conflicts(line)
    _name_lines(drafts)


def _doubt_torn_names(lines: Sequence[LineDraft]) -> None:
    """Doubt the name at the start of a line that is the rest of a longer one: `s_att=3.5` of a torn `loss_att=3.5`."""
    names = {slot.named.printed or slot.named.name for line in lines for slot in line.numbers}
    for line in lines:
        slot = line.numbers[0] if line.numbers and not isinstance(line, JsonDraft) else None
        name = slot.named.printed or slot.named.name if slot is not None else ""
        is_short = 0 < name.find("_") < _LEAST_LETTERS and line.slots[0].texts[0].lower() == name
        if slot is not None and is_short and any(x.endswith(name) and x[: -len(name)][-1:].isalpha() for x in names):
            slot.is_sure = False


def _leave_unsure(lines: Iterable[LineDraft]) -> None:
    """Leave numbers unread that nothing names without doubt."""
    for line in lines:
        line.leave_unsure()


@cache
def _measured() -> frozenset[str]:
    """Return the fields of table `steps` that measure a step."""
    return frozenset(field for field, quantity in quantities_of("steps").items() if not quantity.places)


# --- tables -------------------------------------------------------------------------------------------------------


def _step_lines(lines: Sequence[LineDraft]) -> list[LineDraft]:
    """Return the lines that close a step: they print its number and measurements of it, but not of a validation."""
    candidates = [d for d in lines if "step" in d.names and _has_measurements(d)]
    candidates = [d for d in candidates if not _VALIDATION.search(d.words)] or candidates
    timed = [d for d in candidates if _has_times(d)]
    most_lines = max((d.shape.count for d in timed or candidates), default=0)
    timed_names = {n for d in timed for n in d.names}
    others = [
        d for d in candidates if d not in timed and (not timed or _measured() & set(d.names) - timed_names - _SETTINGS)
    ]
    return [d for d in [*timed, *others] if d.shape.count * 20 >= most_lines]


def _has_measurements(line: LineDraft) -> bool:
    """Whether the line prints times, or other results of a training step."""
    names = set(line.names) - _SETTINGS
    has_results = bool(_measured() & names) or any(n == "time" or n.endswith("loss") for n in names)
    return _has_times(line) or (has_results and not _VALIDATION.search(line.words))


def _has_times(line: LineDraft) -> bool:
    return any(s.is_time for s in line.numbers)


def _table(line: LineDraft, first_step: int | None, first_result: int | None, step_count: int) -> str:
    """Return the table of a line that closes no step, and note the reason in the line.

    Args:
        line: The line.
        first_step: The line number of the first step line; None if the log has no step lines.
        first_result: The line number of the first line with a rate or another result; None for none.
        step_count: The number of step lines.
    """
    figures = [s for s in line.numbers if s.named.name not in _PLACE]
    has_text = any(s.kind == TEXT and not s.listed for s in line.slots)
    is_rare = line.shape.count <= max(_FEW, step_count // 4) if first_step is not None else line.shape.count == 1
    times = [s for s in figures if s.is_time]
    is_setting = is_rare and _is_setting(line)
    if is_rare and figures and all(s.named.name.endswith("seed") for s in figures):
        line.why.append("a seed is a setting wherever it is; as a value it would lose digits")
        return "runs"
    if is_setting and first_step is not None and line.shape.first < first_step:
        line.why.append("printed before the first step")
        return "runs"
    if is_rare and _SUMMARY.search(line.words) and "step" not in line.names:
        line.why.append("its words say that it is a summary")
        return "summaries"
    if first_step is not None and figures and len(times) == len(figures) and not has_text and line.shape.count > 1:
        line.why.append("all its numbers are times, and the log prints steps")
        return "phases"
    is_before = first_result is None or line.shape.first < first_result
    if is_setting and first_step is None and is_before and not has_text:
        line.why.append("printed once, before the first result")
        return "runs"
    return "values"


def _is_setting(line: LineDraft) -> bool:
    """Whether a line can describe the run: named whole numbers, or fractions of known names; no result and no count."""
    is_cell = line.words.startswith("|")  # a table of results
    return (
        not is_cell
        and not _names_moment(line)
        and not has_statistics(word for word in words_of(line.slots) if word.lower()[:3] != "max")
        and _RESULT.search(line.words) is None
        and _NO_CONFIGURATION.search(line.words) is None
        and all(_is_setting_number(s) for s in line.numbers)
        and not any(s.listed and any("." in text for text in s.texts) for s in line.slots)
    )


def _names_moment(line: LineDraft) -> bool:
    """Whether a line says how far the run is: `saved at the end of epoch 355, iters 800`."""
    pairs = pairwise(line.slots)
    return any(slot.kind in (NUMBER, UNSURE) and before.texts[0].lower() in MOMENTS for before, slot in pairs)


def _is_result(line: LineDraft) -> bool:
    """Whether a line prints a rate, or words of a result: not the time of a preparation alone."""
    bases = {base_of(s.named.unit) for s in line.numbers if s.named.unit}
    is_measured = not bases.isdisjoint(("1/s", "GB/s", "TFLOP/s", "W", "J")) and "it/s" not in line.words
    is_time = _has_times(line)
    has_words = _RESULT.search(line.words.replace("used", "")) is not None and not is_time
    return is_measured or (has_words and not all(map(_is_setting_number, line.numbers)))


def _is_setting_number(slot: Slot) -> bool:
    """Whether a number can be a setting: its name ends in a word of configuration, and it does not change."""
    named = slot.named
    is_knob = _KNOBS.fullmatch(named.name) is not None
    if not is_knob and named.name.rpartition("_")[2] not in CONFIGURED:
        return False
    is_whole = slot.spec[-1:] == "d" or is_knob
    is_result = bool(named.unit) or named.name.endswith("_spread") or slot.prints_unit
    return not named.vague and is_whole and not is_result and not _is_progress(named.name)


def _is_progress(name: str) -> bool:
    """Whether a number changes while the run goes on: a counter, or a value of now."""
    return _COUNTERS.fullmatch(name) is not None or _PROGRESS.fullmatch(name) is not None


# --- names --------------------------------------------------------------------------------------------------------


def _suit_table(line: LineDraft) -> None:
    """Keep the roles and names of the numbers that the table of a line can have."""
    if line.table != "steps" and any(s.named.why == naming.COUNTS_UP for s in line.numbers):
        line.take_back("step")
    if line.numbers and all(s.named.name == "rank" for s in line.numbers):
        for slot in line.numbers:  # who printed words that measure nothing
            slot.kind = UNSURE
    if line.table != "steps" and all(s.named.name in PLACES for s in line.numbers):
        for role in PLACES:  # without a value, they are in no row
            line.take_back(role)
    if line.table == "runs":
        _read_words(line)
    _rename_numbers(line)


def _rename_numbers(line: LineDraft) -> None:
    """Rename the numbers of a line to suit its table. Results of a validation are named after it."""
    phase = "" if line.table in ("steps", "runs") or isinstance(line, JsonDraft) else _phase(line)
    for slot in line.numbers:
        named = slot.named
        if line.table == "steps":
            is_free = "step_time" not in line.names and "step_time" not in line.no_roles
            if named.name == "time" and is_free and slot.is_time:
                named, line.has_plain_time = Named("step_time", named.unit, named.why), True
        elif line.table == "summaries" and not phase and not any(s.named.vague for s in line.numbers):
            named = _summary_name(named, line.names)
        elif named.printed and named.name not in _PLACE:
            named = Named(named.printed, named.unit, named.why)
        if (line.table, named.name) != ("steps", "step_time") and slot.is_time and slot.negative:
            named = replace(named, unit="", why="a negative number is no time")
        is_of_phase = phase and _COUNTERS.fullmatch(named.name) is None and not _NAMES_PHASE.search(named.name)
        if is_of_phase and not named.vague:
            named = replace(named, name=f"{phase}_{named.name}")
        slot.named = named


def _phase(line: LineDraft) -> str:
    """Return the word by which a line begins that prints results of a validation; "" for another line."""
    head = ""
    for slot in line.slots:
        if slot.kind == NUMBER and _COUNTERS.fullmatch(slot.named.name) is None and not slot.named.vague:
            break
        is_in_word = not slot.gaps[0] and head[-1:].isalnum()
        head += slot.gaps[0] + (slot.texts[0] if slot.kind == LITERAL else "0" if is_in_word else "\0")
    mark = r":=,;|\t\0"
    head = re.sub(rf"(?:^|[{mark}]| - )[^{mark}]*[A-Za-z][^{mark}]*[:=]*\s*$", "", head)  # the name of the number
    phases = re.search(r"\btrain(?:ing)?\b", head, re.IGNORECASE)
    match = _PHASE.search(head)
    return match["phase"].lower() if match is not None and phases is None else ""


def _summary_name(named: Named, names: Sequence[str]) -> Named:
    """Return the number of a summary under the name of the `steps` column that it averages, if there is one.

    Under that name, perflog finds the window of steps that the average covers.
    """
    is_total = named.printed.startswith("total_")  # a sum, perhaps of the parts of one quantity
    is_column = bool(named.printed) and naming.names(named.name, named.printed) and not is_total
    printed = named.name if is_column or not named.printed else named.printed
    field = next((c for c in sorted(_measured()) if _AVERAGE_OF.sub("", printed) == c and c not in names), "")
    unit = base_of(named.unit)
    column = column_for("steps", field) if field else None
    is_average = column is not None and unit == column.unit
    return Named(field if is_average else printed, named.unit, named.why)


def _read_words(line: LineDraft) -> None:
    """Turn words that are the value of a key into fields: the line describes a run."""
    used = set(line.names)
    for place, slot in enumerate(line.slots):
        following = line.slots[place + 1] if place + 1 < len(line.slots) else None
        is_last_word = (
            following is None
            or (len(following.gaps[0]) > 1 and following.texts[0] not in (":", "="))
            or following.texts[0] in (",", ";", "|", ")", "`", "'", '"', "]")
        )
        if slot.kind == LITERAL and slot.value and is_last_word and slot.value not in used:
            slot.kind, slot.named = TEXT, Named(slot.value)
            used.add(slot.value)


def _resolve_conflicts(line: LineDraft) -> None:
    """Drop strings for which the table has no column, and rename fields named like a column with another meaning."""
    table, used = line.table or "", UniqueNames()
    for slot in line.slots:
        if slot.kind not in (NUMBER, TEXT):
            continue
        column = column_for(table, slot.named.name) if table != "runs" or slot.named.name == "device" else None
        takes_text = column is not None and column.type in ("word", "text")
        slot.dropped = slot.kind == TEXT and (
            table in ("steps", "phases", "kernels", "summaries")
            and not takes_text
            and (slot.listed or table != "summaries")
        )
        name = slot.named.name
        if name in PLACES:
            conflicts = slot.kind == TEXT or slot.spec[-1:] != "d"
        elif table in PER_FIELD:
            conflicts = column is not None
        else:
            conflicts = column is not None and takes_text != (slot.kind == TEXT)
        name = used.take(f"{name}_printed" if conflicts else name)
        if name != slot.named.name:
            slot.named = Named(name, slot.named.unit, slot.named.why)


def _name_lines(drafts: Sequence[LineDraft]) -> None:
    """Give each line with numbers a unique name."""
    used = UniqueNames()
    for line in (line for line in drafts if line.read):
        if isinstance(line, TableDraft):
            used.take(line.name)
            continue
        words = [w for s in line.slots if s.kind == LITERAL for w in re.findall(r"[A-Za-z]{2,}", s.texts[0])]
        base = {"steps": "step", "kernels": "kernel"}.get(line.table or "") or naming.slug(" ".join(words[:3]), 3)
        line.name = used.take(base or (line.names or ["list"])[0])
