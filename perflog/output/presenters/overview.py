"""The overview on one screen: at most 25 lines of 80 columns, or fewer columns, whatever was read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from shlex import join

from perflog.analysis.overview import Overview
from perflog.analysis.overview.next_commands import again
from perflog.output.screens import HEIGHT, columns, command_lines, first_lines, fit, folded, folded_list, sentence_lines
from perflog.output.sheets import cell
from perflog.output.terminal import columns_of, cut, padded, visible
from perflog.units import count, show

_FORMAT = "format"  # the setting in which runs of several programs differ
_ROWS, _PARTS, _DOUBTS = 8, 5, 5
_LINES_OF_DOUBT = (4, 3, 2, 1)  # the first that the screen has room for
_BAR = 24  # characters of a bar of 100 %
_LEAST_SHARE = 0.005  # smaller parts have no bar
_NAME, _SETTING = 34, 20  # characters of the name of a run, and of a setting and its values


def screen(overview: Overview) -> list[str]:
    """Return the lines of an overview for a terminal."""
    table, left_out = _table(overview)
    outcome = (line for text in overview.outcome for line in folded(f"! {cell(text)}", 2))
    head = [*_head(overview), *outcome, *table]
    first, others = (list(sentence_lines(map(cell, part))) for part in (overview.reasons[:1], overview.reasons[1:]))
    answers = [*_bars(overview), *first]
    end = list(_next(overview))
    room = HEIGHT - len(head) - len(left_out) - len(answers) - len(others) - len(end)
    layouts = [list(_doubts(overview, most)) for most in _LINES_OF_DOUBT]
    tail = [*next((lines for lines in layouts if len(lines) <= room), layouts[-1]), *end]
    lines = max(HEIGHT - len(head) - len(tail), 0)
    has_room = len(left_out) + len(answers) <= lines  # else what holds up a run comes first
    middle = [*left_out, *answers, *others] if has_room else [*answers, *left_out, *others]
    return [*head, *first_lines(middle, lines), *tail]


def _head(overview: Overview) -> Iterator[str]:
    name = os.path.basename(overview.names[0].rstrip("/")) or overview.names[0]
    others = f" and {len(overview.names) - 1} more" if len(overview.names) > 1 else ""
    title = f"{cut(name, _NAME)}{others}: {overview.what}; {unread_in_words(overview)}"
    yield from first_lines(list(sentence_lines([cell(title)])), 3)
    settings = [name for name in overview.groups[0].settings if name != _FORMAT] if overview.groups else []
    if len(overview.groups) > 1 and settings:
        yield fit(f"Runs differ in {', '.join(settings)}.")


def unread_in_words(overview: Overview) -> str:
    """Return how much of the log is unread, in words."""
    lines, figures = overview.lines["unread"], overview.read_figures.get("unread", 0)
    parts = [count(lines, "line")] * bool(lines) + [count(figures, "figure")] * bool(figures)
    if not parts:
        return "all lines read"
    return f"{' and '.join(parts)} unread of {count(overview.lines['total'], 'line')}"


# --- how fast -----------------------------------------------------------------------------------------------------


def _table(overview: Overview) -> tuple[list[str], list[str]]:
    """Return the lines of the table of runs, and a line on the columns that it has no room for."""
    if not overview.figures:  # cases of a benchmark: none represents the others
        text = "perflog finds no metric to rank these runs by: `perflog show` lists the tables."
        return [] if overview.reasons else [text], []
    settings = list(_settings(overview))
    format_columns = [] if _settings_tell(overview) else [column for column in settings if column[0] == _FORMAT]
    settings = [column for column in settings if column not in format_columns]
    table = [column for column in (_marks(overview), *settings, _runs(overview)) if column]
    first = len(table)
    for figure in overview.figures:
        table.append([cell(text) for text in overview.figure_column(figure)])
        if figure is overview.figures[0] and overview.base:
            table.append(overview.change_column())
    table += format_columns  # what they print tells programs apart
    left_out: list[list[str]] = []
    while len(table) > (2 if first else 1) and sum(map(_width, table)) + 2 * (len(table) - 1) > columns():
        left_out.insert(0, table.pop(_spare_column(table, first)))
    widths = [_width(column) for column in table]
    order, lines = _rows_shown(overview), list[str]()
    for place in (-1, *order):
        if place is None:
            lines.append(f"  ... {len(overview.groups) - len(order) + 1} more")
            continue
        cells = [column[place + 1] for column in table]
        left = (_text_column(c) for c in table)
        fitted = (padded(c, n, right=not is_text) for c, n, is_text in zip(cells, widths, left, strict=True))
        lines.append(fit("  ".join(fitted)))
    return lines, _left_out(left_out)


def _spare_column(table: Sequence[Sequence[str]], first: int) -> int:
    """Return the index of the column to leave out: the last one without which each row still has a value of a metric.

    `first`: index of the first metric, which stays.
    """
    if len(table) <= first + 1:  # the first metric alone: a setting, if some were left out before too
        return len(table) - 2
    for index in range(len(table) - 1, first, -1):
        others = [column for place, column in enumerate(table) if place >= first and place != index]
        if all(value == "-" or any(column[row] != "-" for column in others) for row, value in enumerate(table[index])):
            return index
    return len(table) - 1


def _left_out(table: Sequence[Sequence[str]]) -> list[str]:
    """Return a line on the columns that have no room: of a single run their values, else their names."""
    if not table:
        return []
    if len(table[0]) > 2:
        before, texts = "No room for ", [column[0] for column in table if column[0] != _FORMAT]
    else:
        before, texts = "Also ", [f"{name} {value}" for name, value in table if value != "-"]
    return folded_list(before, texts, 1) if texts else []


def _rows_shown(overview: Overview) -> list[int | None]:
    """Places of the rows; of many the best and the worst by the headline, with None between them."""
    places: list[int | None] = list(range(len(overview.groups)))
    if len(places) <= _ROWS + 1:
        return places
    figure = overview.figures[0]
    values = [overview.value(figure, group) for group in overview.groups]
    ranked = sorted((i for i, v in enumerate(values) if v is not None), key=lambda i: values[i] or 0.0)
    ranked = ranked if figure.better != "higher" else ranked[::-1]
    half = _ROWS // 2
    return [*ranked[:half], None, *ranked[-half:]] if len(ranked) > _ROWS else [*places[:_ROWS], None]


def _marks(overview: Overview) -> list[str]:
    """The column that names the rows; empty for a single run."""
    if len(overview.groups) < 2:
        return []
    if _settings_tell(overview):
        return ["", *(group.mark for group in overview.groups)]
    return ["", *(f"{group.mark} {cut(cell(group.name), _NAME)}" for group in overview.groups)]


def _settings_tell(overview: Overview) -> bool:
    """Whether the rows differ in their settings alone: runs of one log without labels, or groups of repeats."""
    combinations = {tuple(group.settings.values()) for group in overview.groups}
    nameless = all(group.name.endswith(group.mark) or len(group.runs) > 1 for group in overview.groups)
    return len(combinations) == len(overview.groups) and nameless


def _settings(overview: Overview) -> Iterator[list[str]]:
    labels_tell = all(any(v in group.name for v in group.settings.values()) for group in overview.groups)
    if len(overview.groups) > 1 and (_settings_tell(overview) or not labels_tell):
        for name in overview.groups[0].settings:
            values = [cut(cell(group.settings[name]), _SETTING) for group in overview.groups]
            yield [cut(name.rpartition(".")[2], _SETTING), *values]


def _runs(overview: Overview) -> list[str]:
    if all(len(group.runs) == 1 for group in overview.groups):
        return []
    return [overview.run_noun, *(str(len(group.runs)) for group in overview.groups)]


def _text_column(column: Sequence[str]) -> bool:
    return not any(c[:1].isdigit() or c[:1] in "+-" for c in column[1:])


def _width(column: Sequence[str]) -> int:
    return max(map(columns_of, column))


# --- why, what not to trust, what next ----------------------------------------------------------------------------


def _bars(overview: Overview) -> Iterator[str]:
    shown = [part for part in overview.parts[:_PARTS] if part.share >= _LEAST_SHARE]
    if shown:
        doubts = "; ".join(dict.fromkeys(part.doubt for part in shown if part.doubt))
        place = " in the first run" if len(overview.groups[0].runs) > 1 else ""
        yield fit(f"Where the time goes{place}{f' ({cell(doubts)})' if doubts else ''}")
    width = max((columns_of(part.name) for part in shown), default=0)
    for part in shown:
        bar = "#" * max(round(part.share * _BAR), 1)
        yield fit(f"  {padded(part.name, width)}  {100 * part.share:3.0f} %  {show(part.seconds, 's', 3):>8}  {bar}")


def _doubts(overview: Overview, most: int) -> Iterator[str]:
    """The warnings, then the findings that are more than notes; the notes only where there is nothing else.

    `most`: lines of one of them.
    """
    doubts = [doubt for doubt in overview.doubts if not doubt.is_outcome]
    if not doubts and not overview.warnings:
        yield f"The {'other ' * bool(overview.outcome)}checks found nothing to distrust."
        return
    yield "Do not trust"
    single = sum(len(group.runs) for group in overview.groups) == 1
    room = _DOUBTS - len(overview.warnings[:1])
    shown = ([doubt for doubt in doubts if doubt.severity != "note"] or doubts)[: room // (1 + single)]
    texts = [("!", text) for text in overview.warnings[:1]]
    texts += [("-" if doubt.severity == "note" else "!", overview.in_words(doubt)) for doubt in shown]
    for mark, text in texts:
        yield from folded(f"  {mark} {cell(text)}", most)
    if left := len(doubts) - len(shown):
        before = f"  and {count(left, 'more kind')} of finding: "
        yield from command_lines(before, visible(f"perflog lint {join(map(again, overview.names))}"))


def _next(overview: Overview) -> Iterator[str]:
    for i, command in enumerate(overview.next[:2]):
        yield from command_lines("Next: " if i == 0 else "      ", visible(command))
