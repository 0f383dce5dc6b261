"""Changes of versions: the runs from which on the metrics of like runs are at another level, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perflog.metrics import Options, Tables, history
from perflog.tables.nulls import none_if_null, row_dicts
from perflog.units import count, show, show_change

_LEAST = 0.01  # smaller changes are not shown
_MOST = 3
_COMMIT = 9  # digits of a commit
_QUANTITIES = {"step_time_s": "step", "tokens_per_s": "tokens/s", "samples_per_s": "samples/s", "elapsed_s": "elapsed"}


def changed_since(tables: Tables, options: Options) -> list[dict[str, Any]]:
    """Return the changes of level that metric `history` finds, the latest first, as one row of it for each run.

    If several metrics change with one run, only the first is returned: the elapsed time follows from the steps.
    """
    rows = history.table(tables, options)
    if not len(rows):
        return []
    rows = rows[rows["change"].astype(float).abs() >= _LEAST].drop_duplicates(["history", "at"])
    return sorted(row_dicts(rows), key=lambda row: str(row["at"]), reverse=True)


def since_when(tables: Tables, options: Options) -> Iterator[str]:
    """Yield the last changes of level: since when, by how much, and the settings that changed with them."""
    changes = changed_since(tables, options)
    logs = dict(tables.rows("runs").records("run", "log"))
    several = len({row["history"] for row in changes}) > 1
    for row in changes[:_MOST]:
        before = row["level_value"] / (1 + row["change"])
        is_commit = row["version"] != row["at"]
        name = row["version"][:_COMMIT] if is_commit else logs[row["run"]].rpartition("/")[2]
        place = f"{row['history']}: since" if several else "Since"
        is_machine = "machine" in (none_if_null(row["cause"]) or "")
        what = "the machine changed with it" if is_machine else "with it"
        with_it = f"; {what}{':' * is_machine} {text}" if (text := none_if_null(row["with_it"])) else ""
        yield (
            f"{place} {row['at']} ({name}): {_QUANTITIES.get(row['figure'], row['figure'])} "
            f"{show(before, row['unit'])} -> {show(row['level_value'], row['unit'])}, {show_change(row['change'])}, "
            f"p {row['p']:.2g}, {row['level_versions']} versions{with_it}."
        )
    if len(changes) > _MOST:
        yield f"{count(len(changes) - _MOST, 'earlier change')}."
