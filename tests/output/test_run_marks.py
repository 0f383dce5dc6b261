"""Short names of runs and their meanings."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from perflog.log import RunKey
from perflog.output.presenters.run_marks import marks_of, printed_names
from perflog.output.sheets import Mark

_COLUMNS = ("format", "program", "model", "world_size", "device", "dtype", "process")


def log_of(*runs: tuple[str, str | None, int], **config: list[Any]) -> Any:
    """A log of runs: their logs, labels, and numbers in their logs; `config`: a setting of each."""
    keys = [RunKey(f"id{n}", label, f"x/{log}", log, index) for n, (log, label, index) in enumerate(runs)]
    rows = [
        dict.fromkeys(_COLUMNS, "x")
        | {"run": key.id, "config": json.dumps({name: values[n] for name, values in config.items()})}
        for n, key in enumerate(keys)
    ]
    return SimpleNamespace(run_keys=keys, arrow=lambda _: pa.Table.from_pylist(rows))


def test_one_run_needs_no_mark() -> None:
    one = log_of(("a.txt", None, 1))
    assert marks_of(one) == {} and printed_names(one) == {"id0": "a.txt"}
    assert printed_names(log_of(("a.txt", None, 2))) == {"id0": "a.txt#2"}
    assert printed_names(log_of(("a.txt", "label", 3))) == {"id0": "label"}


def test_runs_of_several_logs_are_letters() -> None:
    """A mark means the id, the name and the settings that differ; the name that is printed is marked too."""
    log = log_of(("a.txt", None, 1), ("b.txt", None, 1), batch=[8, 16], lr=[1, 1])
    first, second = Mark("A", "id0, a.txt, batch 8"), Mark("B", "id1, b.txt, batch 16")
    assert marks_of(log) == {"id0": first, "a.txt": first, "id1": second, "b.txt": second}


def test_runs_of_a_log_are_numbers() -> None:
    """A label tells more than the number; a long label is marked beside the printed name, which is short."""
    log = log_of(("a.txt", None, 1), ("a.txt", None, 2))
    assert marks_of(log) == {
        "id0": Mark("#1", "id0"), "#1": Mark("#1", "id0"), "id1": Mark("#2", "id1"), "#2": Mark("#2", "id1")
    }  # fmt: skip
    long, short = "l" * 17, "s" * 16
    labelled = marks_of(log_of(("a.txt", long, 1), ("a.txt", short, 2)))
    assert labelled[long] == labelled["id0"] == Mark("#1", f"id0, {long}")
    alike = marks_of(log_of(("a.txt", long, 1), ("b.txt", long, 1)))
    assert set(alike) == {"id0", "id1", "a.txt", "b.txt", long}
    assert set(marks_of(log_of(("a.txt", short, 1), ("b.txt", short, 1)))) == {"id0", "id1", "a.txt", "b.txt"}
