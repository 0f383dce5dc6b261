"""The result of a gate as Markdown, for a comment on a pull request and for the summary of a job.

Names of logs, settings and series come from strangers. All of them are escaped: no markup, no HTML, nobody is
notified, no other issue is linked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perflog.analysis.compare import Comparison, Gate, results
from perflog.analysis.compare.comparison import SUMMARY_KINDS
from perflog.analysis.compare.explanations.attribution import part_name, telling_parts
from perflog.analysis.compare.gates import Outcome
from perflog.analysis.compare.left_out import ENDINGS
from perflog.ci.systems import Job
from perflog.lazy_patterns import lazy_pattern
from perflog.output import sheets
from perflog.output.presenters.compare import case_name
from perflog.output.presenters.compare_notes import figure_name, signed_time
from perflog.output.presenters.compare_screen import headline_sentences
from perflog.output.sheets import Sheet, SheetColumn, cell, escaped
from perflog.output.terminal import cut
from perflog.provenance import SYSTEMS
from perflog.units import count, show_change

_MARKS, _UNSURE = {0: "✅", 1: "❌"}, "⚠️"  # by exit code; of others, and where a gate passed without being sure

_FIGURES, _PARTS, _DOUBTS, _REASONS, _SETTINGS, _WARNINGS = 12, 6, 5, 6, 12, 8  # that are shown
_CELL, _SENTENCE = 60, 600  # characters
_OF_JOBS = {name for names in SYSTEMS.values() for name in names} - {"host"}  # differ between any two jobs
_CASE = 40
_NOTIFYING = lazy_pattern(r"@(?=\w)|#(?=\d)|\$")
_APART = "&#8203;"  # a space without a width
_HARMLESS = {"@": f"@{_APART}", "#": f"#{_APART}", "$": "&#36;"}
"""`@name` would notify somebody, `#1` link an issue, `$x$` be a formula."""

_BLOCK = lazy_pattern(r"[>+=-]|#{1,6}(?:\s|$)|[0-9]{1,9}[.)](?:\s|$)")  # begins a quotation, a heading, a list, a rule


def summary(
    outcome: Outcome,
    name: str,
    comparison: Comparison | None = None,
    gates: Sequence[Gate] = (),
    kept: str = "",
    job: Job | None = None,
    base_dates: Sequence[str] = (),
) -> str:
    """Return the result of a gate as Markdown.

    Args:
        outcome: What became of the gate.
        name: The name of the gate.
        comparison: The comparison, if there is one.
        gates: The gates.
        kept: What became of the baseline, in a sentence.
        job: The job that ran; its page is linked.
        base_dates: When the first and the last run of the base were read.
    """
    mark = _UNSURE if outcome.code > 1 or outcome.notes else _MARKS[outcome.code]
    parts = [f"### {mark} perflog {text(name)}: {_headline(outcome, comparison)}"]
    if outcome.reasons:
        parts.append("\n".join(_listed(outcome.reasons, _REASONS)))
    if outcome.advice:
        parts.append(text(outcome.advice))
    if comparison is not None:
        told = (each.sentence for each in comparison.objections if each.cause is None)  # the others are reasons
        parts += [text(each) for each in (*told, *headline_sentences(comparison, comparison.sides))]
        parts += [_markdown(_figures(comparison)), _markdown(_parts(comparison))]
        parts += [*_gates(comparison, gates), *_doubts(comparison, outcome)]
    if kept:
        parts.append(text(kept))
    parts += [_details(comparison, base_dates)] if comparison is not None else []
    parts.append(_footer(outcome, job or Job()))
    return "\n\n".join(part for part in parts if part) + "\n"


def unfinished(name: str, job: Job | None = None) -> str:
    """Return what is said where a gate ended before it had a result: an earlier result must not stay."""
    outcome = Outcome("error", ("perflog ended before it had a result: see the log of the job",), 3)
    return summary(outcome, name, job=job)


def text(words: str) -> str:
    r"""Return a string escaped so that a comment shows it as it is.

    Example:
        >>> text("<b>@all</b> #1")
        '\\<b>@&#8203;all\\</b> #&#8203;1'
    """
    shown = _harmless(escaped(cell(cut(words, _SENTENCE))))
    return _APART + shown if _BLOCK.match(shown) else shown


def _harmless(markdown: str) -> str:
    return _NOTIFYING.sub(lambda match: _HARMLESS[match[0]], markdown)


def _headline(outcome: Outcome, comparison: Comparison | None) -> str:
    """What happened, with the change of the headline metric."""
    if comparison is None or comparison.leading is None or outcome.code > 1:
        return text(outcome.title)
    row = comparison.leading
    change = f"{figure_name(row)} {show_change(row.change)}"
    return text(f"{outcome.title}, {change}" + f": {row.verdict}" * (outcome.code == 0))


def _listed(texts: Sequence[str], most: int) -> Iterator[str]:
    yield from (f"- {text(each)}" for each in texts[:most])
    if len(texts) > most:
        yield f"- and {len(texts) - most} more"


def _markdown(sheet: Sheet) -> str:
    return _harmless("\n".join(sheets.markdown([sheet]))) if sheet.rows else ""


def _figures(comparison: Comparison) -> Sheet:
    """The figures that the verdict is about, then the others of whole runs and of their steps."""
    headlines = comparison.headlines
    others = [row for row in comparison.row_records if row.kind in SUMMARY_KINDS and row not in headlines]
    changed = [row for row in others if row.is_change]
    rows = [*headlines, *changed, *(row for row in others if row not in changed)]
    several, pair = len(comparison.cases) > 1, len(comparison.sides) == 2
    names = ["case"] * several + ["figure"] + ([] if pair else ["side"])
    columns = (
        *map(SheetColumn, names),
        SheetColumn(comparison.sides[0], number=True),
        SheetColumn(comparison.sides[1] if pair else "value", number=True),
        SheetColumn("difference", number=True),
        SheetColumn(f"{100 * comparison.rule.level:g} % interval", number=True),
        SheetColumn("verdict"),
    )
    cells = []
    for row in rows[:_FIGURES]:
        place = {"case": case_name(row.case, _CASE), "figure": cut(figure_name(row), _CELL), "side": row.side}
        values = [cell(row.base_value, row.unit), cell(row.side_value, row.unit)]
        cells.append(
            [
                *(place[name] for name in names),
                *values,
                show_change(row.change),
                row.interval_in_words,
                row.verdict,
            ]
        )
    left = len(comparison.row_records) - len(cells)
    notes = ["* computed from another metric: no further evidence"] * any(row.derived for row in rows[:_FIGURES])
    notes += [f"{count(left, 'more row')}: see the page"] * (left > 0)
    return Sheet("figures", columns, cells, note="\n".join(notes))


def _gates(comparison: Comparison, gates: Sequence[Gate]) -> Iterator[str]:
    """A table of the gates, where there are several."""
    if len(gates) > 1:
        rows = [
            (each.gate, each.result, cut("; ".join(each.reasons), _SENTENCE)) for each in results(comparison, gates)
        ]
        yield _markdown(sheets.sheet("gates", "gate result reason", rows))


def _parts(comparison: Comparison) -> Sheet:
    """Where the difference of a pair went: the parts that differ most, each below what it is part of."""
    columns = [SheetColumn(name, "s", number=True) for name in (*comparison.sides[:2], "difference")]
    changed = comparison.is_pair and any(row.is_change for row in comparison.headlines)
    kinds = dict.fromkeys(part.kind for part in comparison.attribution_records if changed)
    rows = []
    for kind in kinds:
        parts = [part for part in comparison.attribution_records if part.kind == kind]
        shown = [parts[0], *telling_parts(parts, _PARTS)] if len(parts) > 1 else []
        rows += [
            [
                f"{'· ' * part.depth}{cut(part_name(part), _CELL)}",
                part.base_s,
                part.side_s,
                signed_time(part.difference_s),
            ]
            for part in shown
        ]
    return Sheet("parts", (SheetColumn("where the difference went"), *columns), rows)


def _doubts(comparison: Comparison, outcome: Outcome) -> Iterator[str]:
    """What not to trust, but for what the reasons of the outcome say."""
    doubts = {code: each for code, each in comparison.doubts.items() if not (outcome.reasons and code in ENDINGS)}
    told = [f"{words} ({', '.join(sides)})" if sides else words for words, sides in doubts.values()]
    if told:
        yield "**Do not trust**\n\n" + "\n".join(_listed(told, _DOUBTS))


def _details(comparison: Comparison, base_dates: Sequence[str]) -> str:
    """What was compared: the runs, the settings that differ, and the warnings, folded."""
    runs = [sum(len(case.runs[k]) for case in comparison.cases) for k in range(len(comparison.sides))]
    lines = [f"- {text(side)}: {count(number, 'run')}" for side, number in zip(comparison.sides, runs, strict=True)]
    if base_dates:
        lines[0] += f", read from {' to '.join(dict.fromkeys(date[: len('2026-03-01')] for date in base_dates))}"
    differing = [row for row in comparison.setting_records if row.setting not in _OF_JOBS]
    for row in differing[:_SETTINGS]:
        values = " → ".join(cut(cell(row.values[side]), _CELL) for side in comparison.sides)
        lines.append(f"- differs: {text(f'{cut(row.setting, _CELL)} {values}')}")
    if len(differing) > _SETTINGS:
        lines.append(f"- and {len(differing) - _SETTINGS} more")
    lines += _listed(comparison.warnings, _WARNINGS)
    return "<details><summary>What was compared</summary>\n\n" + "\n".join(lines) + "\n\n</details>"


def _footer(outcome: Outcome, job: Job) -> str:
    """The exit code, the commit and the page of the job."""
    from perflog.version import installed_version

    told = [f"exit code {outcome.code}", *([f"commit {job.commit[:10]}"] if job.commit else [])]
    if re.fullmatch(r"https?://[\w.:/%+~?=&-]+", job.address):
        told.append(f"[job]({job.address})")
    return f"<sub>{' · '.join([*told, f'perflog {installed_version()}'])}</sub>"
