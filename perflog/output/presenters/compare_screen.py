"""The comparison on one screen: verdict, metrics, where the difference went, what not to trust, the next command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from math import isclose
from shlex import join

from perflog.analysis.compare import Comparison
from perflog.analysis.compare.comparison import OTHER_WORK, SUMMARY_KINDS
from perflog.analysis.compare.explanations.attribution import (
    UNEXPLAINED,
    AttributionRow,
    are_offset,
    part_name,
    telling_parts,
)
from perflog.analysis.compare.explanations.cause_changes import CauseChange, grown, slow_ranks
from perflog.analysis.compare.explanations.operators import changes_kernels, kernels_of_both, moved_most, time_basis
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.sides import SEPARATOR
from perflog.analysis.compare.verdicts import OTHER_SETTING
from perflog.analysis.lint.losses import DIVERGED
from perflog.analysis.run_names import letters
from perflog.grouping import grouped
from perflog.metrics.profiles.kernel_names import short_kernel
from perflog.output.presenters.compare import case_name
from perflog.output.presenters.compare_notes import counts_of_sides, figure_name, notes_on_verdict, signed_time
from perflog.output.screens import HEIGHT, WIDTH, columns, command_lines, fit, folded, folded_list, sentence_lines
from perflog.output.sheets import cell
from perflog.output.terminal import columns_of, cut, padded, visible
from perflog.units import count, numbered, show, show_change

_FIGURES, _DOUBTS, _SIDES, _BEST = 5, 4, 10, 3
_NAMED = 4  # sides that are named one by one
_RANK = "files.rank"  # of a trace; its other settings `files.*` are facts about the file that each side has of its own
_SETTING = 30  # characters of a setting, of its values and of a metric
_CASE, _LONG_CASE = 25, 50  # characters of a configuration in a table, in a sentence
_SHORTEST_NAME = 8  # characters of the name of a side beside its values
_PART = 36  # characters of a part with its indent
_BASE = "A"  # the letter of the base
_LEGEND = 3  # lines of the names of sides
_NEXT = 3  # lines of the next command
_OPERATORS = 3  # that the screen names
_BOTH = ("base", "side")
_CAUSES = 3  # that the screen names


def screen(compared: Comparison, sides: Sequence[str], height: int = HEIGHT) -> list[str]:
    """Return the lines of a comparison for a terminal: at most 25 of 80 characters.

    Args:
        compared: The comparison.
        sides: The sides and options as they were typed, for the next command.
        height: The most lines. Verdict, settings and doubts are always shown.
    """
    verdict, settings = list(_verdict(compared)), [*_settings(compared), *_vanished(compared)]
    tail = [] if compared.same_bytes else [*_how_sure(compared), *_doubts(compared)]
    room = max(height - len([*verdict, *settings, *tail]) - 1, 0)
    head = [*verdict, *_sides(compared, room), *settings]
    if compared.same_bytes:
        return [*head, *_next(sides, _NEXT)]
    room = max(height - len([*head, *tail]) - 1, 0)
    figures = list(_figures(compared))[:room]
    room -= len(figures)
    causes, is_rank = list(_causes(compared)), _bound_by_rank(compared)
    room -= is_rank * len(causes)  # the rank is the answer: it comes before rows that say how
    operators = list(_operators(compared, room // 2))
    tree = list(_tree(compared, room - len(operators)))
    if not is_rank and len(causes) > room - len(operators) - len(tree):
        causes = []
    lines = [*head, *figures, *tree, *operators, *causes, *tail]
    return [*lines, *_next(sides, min(_NEXT, height - len(lines)))]


# --- verdict and sides --------------------------------------------------------------------------------------------


def _verdict(compared: Comparison) -> Iterator[str]:
    """Why the sides may not be comparable, then the change of the headline, or the best of several sides."""
    for text in best_sentences(compared):
        yield from folded(cell(text), 2)
    yield from sentence_lines([cell(text) for text in verdict_sentences(compared, ("A", "B"))])


def verdict_sentences(compared: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield why the sides may not be comparable, then the change of the headline in words; `names`: of two sides."""
    yield from (each.sentence for each in compared.objections)
    yield from headline_sentences(compared, names)


def headline_sentences(compared: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield the change of the headline in words; `names`: of two sides."""
    row = compared.leading
    if row is None:
        yield "The sides have no metric in common for a verdict."
    elif compared.is_pair:
        name = figure_name(row).replace("_", " ")
        change = f"{show_change(row.change)} {name}" + f" ({row.interval_in_words})" * (row.interval_in_words != "-")
        text = f"{names[1]} against {names[0]}: {change}, {row.meaning(compared.rule)}"
        verdict = f": {compared.verdict}" * (compared.verdict != OTHER_SETTING)
        if compared.verdict == "inconclusive":
            verdict += "".join(f", as {reason}" for reason in _changing(compared, names))
        yield f"{text}{verdict}; {counts_of_sides(row, names)}"
        if row.advice and (row.scope != "steps" or not row.has_error):
            yield row.advice
    else:
        sides = (
            f"{len(compared.sides)} values of {SEPARATOR.join(compared.by)}"
            if compared.by
            else count(len(compared.sides), "side")
        )
        yield f"{sides}, {count(len(compared.cases), 'configuration')}: {compared.conclusion}"


def _changing(compared: Comparison, names: Sequence[str]) -> Iterator[str]:
    """Yield in words that the speed of sides is not the same during the run, if it is so."""
    changing = {row.side for row in compared.finding_records if row.code == "drift"}
    changing |= {row.side for row in compared.speed_records if row.change is not None}
    shown = [name for side, name in zip(compared.sides, names, strict=True) if side in changing]
    if shown:
        yield f"the speed of {' and '.join(shown)} changes during the run"


def best_sentences(compared: Comparison) -> Iterator[str]:
    """Yield the best side of each configuration, then the sides that do not differ from it, or the next best.

    No side is best if the sides did other work.
    """
    if compared.same_bytes or any(each.head in (OTHER_SETTING, OTHER_WORK) for each in compared.objections):
        return
    for best in compared.best[:_BEST]:
        where = f" in {case_name(best.case, _LONG_CASE)}" if best.case else ""
        value = f"{figure_name(best.next).replace('_', ' ')} {_values(best.next)[0]}"
        changes = {row.side: f"{cut(row.side, _SETTING)} ({show_change(row.change)})" for row in best.rows}
        if best.level:
            is_alone = not any(row.has_error for row in best.rows if row.side in best.level)
            level = "the others, of one value each" if is_alone else "not known to differ from it"
            others = f"{level}: {', '.join(changes[side] for side in best.level[:_BEST])}"
            if left := len(best.level[_BEST:]):
                others += f" and {left} more"
            row = next(row for row in best.rows if row.side == best.level[0])
            if row.advice and row.scope != "steps":
                others += f"; {row.advice}"
        else:
            others = f"next {changes[best.next.side]}"
        yield f"Best{where}: {cut(best.side, _SETTING)}, {value}; {others}"
    if len(compared.best) > _BEST:
        wins = Counter(best.side for best in compared.best).most_common(_BEST)
        text = ", ".join(f"{cut(side, _SETTING)} in {number}" for side, number in wins)
        yield f"Best of {len(compared.best)} configurations: {text}"


def _letters(compared: Comparison) -> dict[str, str]:
    """The letter of each side that is shown."""
    return {side: letters(i) for i, side in enumerate(compared.sides[:_SIDES])}


def _sides(compared: Comparison, room: int) -> Iterator[str]:
    """Letters of the sides; of several sides also the headline of each, on as many lines as there is room for."""
    letter_of = _letters(compared)
    if len(compared.cases) > 1 and compared.headlines:
        yield from _lines_of_configurations(compared, room)
        return
    shown = max(min(_SIDES, room - 2), 2)
    if compared.headlines and not compared.is_pair:
        yield from _lines_of_sides(compared, shown)
    else:
        lines = (fit(f"  {letter}  {cut(cell(side), columns() - 5)}") for side, letter in letter_of.items())
        yield from islice(lines, shown)
    if left := len(compared.sides[shown:]):
        yield f"  and {count(left, 'more side')}: --all"


def _lines_of_configurations(compared: Comparison, room: int) -> Iterator[str]:
    """The sides with their letters, then a line for the headline of each configuration and side."""
    letter_of = _letters(compared)
    more = len(compared.sides) - len(letter_of)
    names = ", ".join(f"{letter}={cut(cell(side), _SETTING)}" for side, letter in letter_of.items())
    legend = folded(f"Sides: {names}{f' and {more} more' * (more > 0)}", _LEGEND)
    yield from legend
    rows = _shown_headlines(compared)
    with_letter = [row for row in rows if row.side in letter_of]
    shown = with_letter[: max(min(_SIDES, room - len(legend) - 2), 2)]
    yield from _table(
        ("", "", _BASE, "", ""),
        [(case_name(row.case, _CASE), letter_of[row.side], *_values(row), row.meaning(compared.rule))
         for row in shown],
    )  # fmt: skip
    if left := len(rows) - len(shown):
        yield f"  and {left} more: --all"


def _shown_headlines(compared: Comparison) -> list[FigureRow]:
    """The headline of each configuration and side: the median, or the only value."""
    return [row for row in compared.headlines if row.statistic in ("median", "value")] or compared.headlines


def _lines_of_sides(compared: Comparison, shown: int) -> Iterator[str]:
    """A line for each of the first sides: its letter and name, its headline, and the change against the first one."""
    letter_of = dict(islice(_letters(compared).items(), shown))
    rows = {row.side: row for row in _shown_headlines(compared)}
    first = next(iter(rows.values()))
    runs_of = dict(zip(compared.sides, compared.cases[0].runs, strict=True))
    titles = (figure_name(first).replace("_", " "), "against A", "", "")
    cells: dict[str, tuple[str, ...]] = {compared.sides[0]: (_values(first)[0], "", "", "")}
    for side in letter_of:
        if row := rows.get(side):
            cells[side] = *_values(row)[1:], row.interval_in_words, row.meaning(compared.rule)
        else:
            cells.setdefault(side, ("-", "", "", f"not in {count(len(runs_of[side]), 'run')}"))
    others = sum(max(map(columns_of, column)) for column in zip(titles, *cells.values(), strict=True))
    room = max(columns() - others - 2 * len(titles) - len("  A  "), _SHORTEST_NAME)
    by = f"   {cut(cell(SEPARATOR.join(compared.by)), room)}" if compared.by else ""
    names = {side: f"{letter}  {cut(cell(side), room)}" for side, letter in letter_of.items()}
    yield from _table((by, *titles[:-1]), [(name, *cells[side]) for side, name in names.items()])


def _values(row: FigureRow) -> tuple[str, str, str]:
    """Both values of a row, and the change."""
    base, side = (cell(value, row.unit) for value in (row.base_value, row.side_value))
    return base, side, show_change(row.change)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table: the first column and the last one to the left, the others to the right.

    If a line is too long, the first column is cut and no number is. If little would be left of it, the values of the
    base are left out: they follow from the change.
    """
    lines = [(*titles, ""), *rows]
    widths, room = _widths(lines)
    if room < min(widths[0], _SHORTEST_NAME) and _BASE in titles:
        base = titles.index(_BASE)
        lines = [(*line[:base], *line[base + 1 :]) for line in lines]
        widths, room = _widths(lines)
    widths[0] = max(min(widths[0], room), 1)
    for line in lines:
        first, *numbers = (padded(text, width, right=True) for text, width in zip(line, widths, strict=False))
        yield fit(f"  {padded(first.strip(), widths[0])}  {'  '.join(numbers)}  {line[-1]}")


def _widths(lines: Sequence[Sequence[str]]) -> tuple[list[int], int]:
    """The widths of all columns but the last one, and how many characters are left for the first."""
    *widths, last = (max(map(columns_of, column)) for column in zip(*lines, strict=True))
    return widths, columns() - sum(widths[1:]) - 2 * len(widths) - 2 - last


def differing_settings(compared: Comparison) -> list[str]:
    """Return the names of the settings that differ, each once, without facts about the files."""
    names = dict.fromkeys(row.setting for row in compared.setting_records)
    return sorted((name for name in names if not name.startswith("files.") or name == _RANK), key=_RANK.__eq__)


def _settings(compared: Comparison) -> Iterator[str]:
    """The settings that differ, without facts about the files, on two lines."""
    rows = {row.setting: row for row in compared.setting_records}
    names = differing_settings(compared)
    if names and compared.is_pair:
        values = {name: [cut(cell(rows[name].values[side]), _SETTING) for side in compared.sides] for name in names}
        pairs = [f"{cut(name, _SETTING)} {' -> '.join(texts)}" for name, texts in values.items()]
        yield from folded_list("Differ: ", pairs, 2, "; ")
    elif compared.by:
        if others := [name for name in names if name not in compared.by]:
            yield from folded_list("Also differ, and may be the cause: ", others, 2)
    elif names:
        yield from folded_list("Differ: ", names, 2)


def _vanished(compared: Comparison) -> Iterator[str]:
    """The metrics that the base of a pair has and the side lacks."""
    names = list(dict.fromkeys(each.metric for each in compared.one_sided if each.on == "base"))
    if names and compared.is_pair:
        yield from folded_list("Not on B: ", [cut(cell(name), _SETTING) for name in names], 2, most=5)


# --- metrics and tree ---------------------------------------------------------------------------------------------


def _figures(compared: Comparison) -> Iterator[str]:
    """A line for each other metric of two sides."""
    if not compared.is_pair:
        return
    headline = [compared.leading] if compared.leading else []
    rows = [row for row in compared.row_records if row.kind in SUMMARY_KINDS and row not in headline]
    shown = [*headline, *rows[:_FIGURES]]
    texts = [(cut(cell(figure_name(row)), _SETTING), *_values(row), row.meaning(compared.rule)) for row in shown]
    yield from _table(("", _BASE, "B", ""), texts)
    if left := len(rows[_FIGURES:]):
        yield f"  and {count(left, 'more metric')}: --all"


def _tree(compared: Comparison, room: int) -> Iterator[str]:
    """Where the largest difference went: the parts that differ most, each below what it is part of."""
    if not compared.headlines:
        return
    row = max(compared.headlines, key=lambda row: abs(row.change))
    parts = [part for part in compared.attribution_records if (part.case, part.side) == (row.case, row.side)]
    kinds = [[part for part in parts if part.kind == kind] for kind in dict.fromkeys(p.kind for p in parts)]
    omitted = "range" if compared.operator_records else None  # operators show more than the ranges around them
    kinds = [rows for rows in kinds if len(rows) > 1 and rows[0].kind != omitted]
    letter = _letters(compared).get(row.side)
    where = "" if compared.is_pair else " ".join(filter(None, [f" in {letter or row.side}", cell(row.case)]))
    for done, rows in enumerate(kinds):
        lines = [*_tree_of(rows, _whole_name(compared, rows[0]) + where, room // (len(kinds) - done))]
        room -= len(lines)
        yield from lines


def _whole_name(compared: Comparison, whole: AttributionRow) -> str:
    """Return what is divided: the compared time, of the slowest rank; else its mean over ranks."""
    if whole.kind in ("range", "kernel", "operator", "call"):
        return f"all {whole.kind}s"
    keys = (whole.case, whole.side, whole.kind, whole.part)
    rows = (row for row in compared.row_records if (row.case, row.side, row.kind, row.metric) == keys)
    is_compared = any(isclose(row.side_value - row.base_value, whole.difference_s, rel_tol=1e-3) for row in rows)
    return f"the median {whole.part}" if is_compared else f"{whole.part}, mean over ranks,"


def _tree_of(parts: Sequence[AttributionRow], what: str, room: int) -> Iterator[str]:
    """Yield the lines of the parts that explain a difference. `what`: the name of the whole; `room`: lines."""
    whole, telling = parts[0], telling_parts(parts, room - 1)
    if not telling:
        return
    is_offset = are_offset(telling)
    doubt = " (not known to differ)" if whole.share is None else " (parts offset one another)" if is_offset else ""
    yield fit(f"Where the {signed_time(whole.difference_s)} of {what} went{doubt}")
    for part in telling:
        name = "  " * part.depth + _part_name(part)
        share = "" if part.share is None or is_offset else f"  {100 * part.share:4.0f} %"
        values = f"  {show(part.base_s, 's', 3):>8} -> {show(part.side_s, 's', 3):>8}" * (columns() == WIDTH)
        yield fit(f"{padded(name, _PART)}{values}  {signed_time(part.difference_s):>9}{share}")


def _bottlenecks(compared: Comparison) -> tuple[CauseChange | None, CauseChange | None]:
    """Return what binds the base, and what binds the side."""
    before, now = (next((c for c in compared.causes if getattr(c, f"{side}_binds")), None) for side in _BOTH)
    return before, now


def _bound_by_rank(compared: Comparison) -> bool:
    """Return whether one rank alone binds one side: the others wait for it, so that all that waits grows."""
    before, now = _bottlenecks(compared)
    both = [each.cause for each in (before, now) if each]
    return compared.is_pair and len(both) > 1 and both[0] != both[1] and any(each.subject == "rank" for each in both)


def _causes(compared: Comparison) -> Iterator[str]:
    """The bottleneck of each side if they differ, and the causes that grew or shrank most, on two lines."""
    if not compared.is_pair:
        return
    texts = []
    before, now = _bottlenecks(compared)
    if before and now and before.cause != now.cause:
        cost = f" (costs {show(now.side_gain_s, 's', 3)})" if now.cause.subject == "rank" and now.side_gain_s else ""
        texts.append(f"the bottleneck is {now.cause.words}{cost}, and was {before.cause.words}")
    named = {each.cause.rank for each in (before, now) if each and each.cause.subject == "rank"}
    slow = [change for change in slow_ranks(compared.causes) if change.cause.rank not in named]
    texts += islice(_slow_together(slow), 1)
    changed = islice(grown(compared.causes, compared.rule.threshold), _CAUSES)
    texts += [f"{signed_time(difference)} {change.cause.words}" for change, difference in changed]
    if texts:
        yield from folded_list("Causes: ", [*map(cell, texts)], 2, "; ")


def _slow_together(slow: Sequence[CauseChange]) -> Iterator[str]:
    """Yield the ranks that are slow in one metric on one side alone: one, or several together."""
    alike = grouped(((change.cause.name, change.only_on), change.cause) for change in slow)
    for (name, side), causes in alike.items():
        ranks = {cause.rank for cause in causes if cause.rank is not None}
        one = len(causes) == 1 or len(ranks) < len(causes)
        words = causes[0].words if one else f"slow {numbered('rank', ranks)}{f': {name}' if name else ''}"
        yield f"{words} on {side} alone"


def _operators(compared: Comparison, room: int) -> Iterator[str]:
    """The operators with the largest change of GPU time, each with its kernels on both sides where these differ."""
    if not compared.is_pair or not compared.operator_records:
        return
    lines: list[list[str]] = []
    for row in moved_most(compared.operator_records, _OPERATORS):
        name = " ".join(filter(None, (row.operator, row.shapes)))
        values = f"  {show(row.base_s, 's', 3):>8} -> {show(row.side_s, 's', 3):>8}" * (columns() == WIDTH)
        lines.append([fit(f"{padded(f'  {cell(name)}', _PART)}{values}  {signed_time(row.difference_s):>9}")])
        if changes_kernels(row):
            lines[-1].append(fit(f"    {cell(kernels_of_both(row))}"))
    while sum(map(len, lines)) > room - 1 and lines:
        lines.pop()
    if lines:
        yield f"Largest changes of GPU time by operator, {time_basis(compared.operator_records[0])}"
        yield from chain(*lines)


def _part_name(part: AttributionRow) -> str:
    if part.kind == "kernel" and part.part != UNEXPLAINED:
        return short_kernel(part.part)
    return cell(part_name(part)).partition(" in ")[0]


# --- what not to trust, what next ---------------------------------------------------------------------------------


def answer_sentences(compared: Comparison) -> list[str]:
    """Return what the screen says in sentences: best side, verdict, and how sure it is."""
    verdict = (*best_sentences(compared), *verdict_sentences(compared, compared.sides))
    return [*verdict, *sentences_on_verdict(compared)]


def sentences_on_verdict(compared: Comparison, names: Sequence[str] = ()) -> Iterator[str]:
    """Yield what the verdict is about and how sure it is; nothing where both sides are the same bytes.

    `names`: of the sides, if they have others here.
    """
    for text in () if compared.same_bytes else notes_on_verdict(compared, names):
        yield text[:1].upper() + text[1:]


def _how_sure(compared: Comparison) -> Iterator[str]:
    letter_of = _letters(compared)
    for text in sentences_on_verdict(compared, [letter_of.get(side, side) for side in compared.sides]):
        yield from folded(cell(text), 2)


def _doubts(compared: Comparison) -> Iterator[str]:
    """What makes the sides hard to compare, then the linter's findings on their runs, each kind once."""
    above = {*_IN_VERDICT, *((DIVERGED,) if compared.diverged else ())}
    doubts = {code: doubt for code, doubt in compared.doubts.items() if code not in above}
    if doubts:
        yield "Do not trust"
    lines = [f"{text}{_where(sides, compared)}" for text, sides in doubts.values()]
    for text in lines[:_DOUBTS]:
        yield from folded(f"  ! {cell(text)}", 1)
    notes = len({finding.code for finding in compared.finding_records}) - len(compared.doubts)
    left = max(len(lines) - _DOUBTS, 0) + notes
    if left and doubts:
        yield f"  {count(left, 'more finding')}: --all"
    elif left:
        yield f"No warnings, {count(left, 'note')}: --all"


_IN_VERDICT = ("comparison-other-work", "comparison-same-run")
"""Codes of findings on the sides together that the first sentence of the screen reports."""


def _where(sides: Sequence[str], compared: Comparison) -> str:
    """The letters of the sides of a finding, or their number if there are many; empty if it names none."""
    letter_of = _letters(compared)
    if len(sides) <= _NAMED and all(side in letter_of for side in sides):
        return f" ({', '.join(letter_of[side] for side in sides)})" if sides else ""
    return f" (all {len(sides)} sides)" if len(sides) == len(compared.sides) else f" ({count(len(sides), 'side')})"


def _next(sides: Sequence[str], room: int) -> list[str]:
    """The next command on so many lines at most, or what to add to the one that was typed."""
    lines = command_lines("Next: ", visible(join(["perflog", "compare", *sides, "--all"])))
    if len(lines) <= room:
        return lines
    return folded("Next: the same command with --all shows everything", max(room, 1))
