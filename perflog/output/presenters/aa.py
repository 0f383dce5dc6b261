"""Sheets of `perflog aa`: false positives of comparisons, and the changes that they find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perflog.analysis.compare.aa import COLUMNS as AA_COLUMNS
from perflog.analysis.compare.aa import OFTEN, POWER_COLUMNS, SPLITS, TESTS
from perflog.output.sheets import Sheet, SheetColumn
from perflog.units import show, show_change

if TYPE_CHECKING:
    import pandas as pd


def false_positives(rates: pd.DataFrame, format: str) -> Sheet:
    """Return the false-positive rates of the gate as a sheet."""
    columns = tuple(SheetColumn(c.name, c.unit, c.name not in ("split", "test")) for c in AA_COLUMNS)
    rows = _values(rates)
    if format not in ("text", "md"):
        return Sheet("aa", columns, rows)
    shown = {*rates["split"], *rates["test"]}
    notes = [f"{name}: {text}" for name, text in (SPLITS | TESTS).items() if name in shown]
    notes.append("wrong: comparisons that report a change; slower, faster: of these, what they call the second side")
    title = "false positives: a change is reported where nothing differs"
    return Sheet("aa", columns, rows, title, "\n".join(notes))


def power(changes: pd.DataFrame, format: str) -> Sheet:
    """Return the changes that a comparison of such runs finds, as a sheet; for the terminal as sentences."""
    columns = tuple(SheetColumn(c.name, c.unit, True) for c in POWER_COLUMNS)
    rows = _values(changes)
    if format not in ("text", "md"):
        return Sheet("power", columns, rows)
    notes = ["run-to-run variation is unknown: name repeats of one configuration (--repeats) to measure it"]
    if rows:
        records = changes.to_dict("records")
        notes = [
            f"{row['runs']} runs per side find a change of {show(row['change'], '1', 2)} or more in 9 of 10 cases, "
            f"and of {_twice(row)}"
            for row in records
            if row["threshold"] == records[0]["threshold"]
        ]
        notes.append(_proposal(records))
        notes.append(
            f"run-to-run variation of the mean step time: {show(records[0]['scatter'], '1', 2)} (standard deviation, "
            f"{records[0]['repeats']} runs)"
        )
    return Sheet("power", (), (), "power: changes that a comparison finds", "\n".join(notes))


def _twice(row: Mapping[str, Any]) -> str:
    """Return how often a change of twice the threshold is found, in words."""
    return f"{show_change(2 * row['threshold'])} in {100 * row['twice_found']:.0f} %"


def _proposal(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the smallest threshold, and for it the fewest runs per side, that find a change of twice the threshold."""
    enough = [row for row in rows if row["twice_found"] >= OFTEN]
    best = min(enough, key=lambda row: (row["threshold"], row["runs"])) if enough else rows[-1]
    how = f"{best['runs']} runs per side and --threshold {100 * best['threshold']:g}%"
    return f"proposal: {how} find {_twice(best)}" if enough else f"no proposal: {how} find {_twice(best)} only"


def _values(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return [
        tuple(v.item() if hasattr(v, "item") else v for v in row) for row in frame.itertuples(index=False, name=None)
    ]
