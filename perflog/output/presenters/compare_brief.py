"""A comparison as a brief answer: `perflog compare --format brief`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import join

from perflog.analysis.compare import Comparison
from perflog.analysis.compare.comparison import SUMMARY_KINDS
from perflog.analysis.compare.explanations.attribution import are_offset, part_name, telling_parts
from perflog.analysis.compare.rows import FigureRow
from perflog.output.brief import BriefLine, brief
from perflog.output.presenters.compare_notes import figure_name, signed_time
from perflog.output.presenters.compare_screen import best_sentences, differing_settings, verdict_sentences
from perflog.output.sheets import cell
from perflog.output.terminal import cut
from perflog.units import show, show_change

_VERDICT, _NEXT, _FIGURE, _PART, _DOUBT, _WARNING = range(6)  # weights: what is cut first is last
_NAME = 40  # characters of the name of a side, a setting or a part
_FIGURES, _ROWS, _EACH = 5, 12, 3
_TITLE = 90  # tokens


def comparison_brief(compared: Comparison, words: Sequence[str]) -> list[str]:
    """Return the verdict, the figures that changed, where the difference went and what not to trust."""
    return brief(list(_comparison(compared, words)))


def _comparison(compared: Comparison, words: Sequence[str]) -> Iterator[BriefLine]:
    names = [cut(side, _NAME) for side in compared.sides]
    for text in (*best_sentences(compared), *verdict_sentences(compared, names)):
        yield BriefLine(text, _VERDICT, _TITLE)
    values = {row.setting: row.values for row in compared.setting_records}
    differs = [
        f"{cut(name, _NAME)} {' -> '.join(cut(cell(value), _NAME) for value in list(values[name].values())[:_EACH])}"
        for name in differing_settings(compared)[:_FIGURES]
    ]
    if differs:
        yield BriefLine(f"Differs: {'; '.join(differs)}", _FIGURE)
    headlines = [row for row in compared.headlines if row.statistic in ("median", "value")] or compared.headlines
    others = [row for row in compared.row_records if row.kind in SUMMARY_KINDS and row not in headlines]
    ranked = sorted(range(len(headlines)), key=lambda i: -abs(headlines[i].change))
    for i in sorted(ranked[:_ROWS]):
        yield BriefLine(_figure(headlines[i], compared.is_pair), _FIGURE if i in ranked[:_EACH] else _PART)
    for row in others[:_FIGURES] if compared.is_pair else ():
        yield BriefLine(_figure(row, compared.is_pair), _DOUBT)
    yield from _difference(compared)
    for text, sides in compared.doubts.values():
        about = f" ({', '.join(cut(side, _NAME) for side in sides[:_EACH])})" if sides else ""
        yield BriefLine(f"Doubt: {text}{about}", _DOUBT)
    for text in compared.warnings[:_EACH]:
        yield BriefLine(f"Warning: {text}", _WARNING)
    yield BriefLine(f"Next: {join(['perflog', 'compare', *words, '--all'])}", _NEXT, whole=True)


def _figure(row: FigureRow, is_pair: bool) -> str:
    where = "" if is_pair else ": ".join(cut(text, _NAME) for text in (row.case, row.side) if text) + ": "
    change = f"{show_change(row.change)}{f' [{row.interval_in_words}]' if row.interval_in_words != '-' else ''}"
    values = " -> ".join(cell(value, row.unit) for value in (row.base_value, row.side_value))
    return f"{where}{figure_name(row).replace('_', ' ')} {values}, {change}: {row.verdict}"


def _difference(compared: Comparison) -> Iterator[BriefLine]:
    """Where the largest difference of a pair went."""
    if not compared.headlines:
        return
    row = max(compared.headlines, key=lambda row: abs(row.change))
    rows = [part for part in compared.attribution_records if (part.case, part.side) == (row.case, row.side)]
    rows = [part for part in rows if part.kind == rows[0].kind]
    telling = telling_parts(rows, _EACH) if rows else []
    for part in telling:
        share = "" if part.share is None or are_offset(telling) else f", {100 * part.share:.0f} % of the difference"
        values = f"{show(part.base_s, 's', 3)} -> {show(part.side_s, 's', 3)} ({signed_time(part.difference_s)}{share})"
        yield BriefLine(f"Where: {cut(part_name(part), _NAME)} {values}", _PART)
