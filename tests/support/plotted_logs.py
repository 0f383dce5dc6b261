"""Logs of the reference runs and made ones, and what a figure of them holds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.text import Text
from support.paths import ROOT
from support.reading import DATA
from support.trace_tables import by_hand, kernel, reduce, step

import perflog
from perflog.metrics import Tables
from perflog.plots import PLOTS
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOME = ROOT
MS = 1e3


@cache
def reference(name: str) -> perflog.Log:
    store = perflog.load(HOME / "reference_runs" / "store")
    return store.select(*[run for run in store.run_keys if run.log == f"{name}.txt"])


@cache
def cut_down(name: str) -> perflog.Log:
    return perflog.read(DATA / f"{name}.txt")


LOGS = {"reference": reference, "cut_down": cut_down}


@cache
def tables(name: str, of: str = "reference") -> Tables:
    """Tables keep what metrics made of them."""
    return Tables(LOGS[of](name))


@cache
def figure(name: str, kind: str) -> Figure:
    return PLOTS[kind](tables(name))


def panels(figure: Figure) -> list[Axes]:
    """Axes that are no scale of colours."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def by_gid(axes: Axes, gid: str) -> list[Any]:
    return [artist for artist in axes.findobj() if artist.get_gid() == gid]


def frame(table: str, rows: int, **columns: Any) -> pd.DataFrame:
    """A table of the one run `r`."""
    empty = {column.name: [None] * rows for column in TABLES[table]}
    place = {"run": ["r"] * rows, "line": np.arange(rows) + 1, "part": np.zeros(rows, int)}
    return pd.DataFrame(empty | place | columns)


def made(times: Any, label: str = "made", **more: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tables of a run with these step times."""
    n = len(times)
    runs = frame("runs", 1, label=[label], log=["/a/made.txt"], log_sha256=["0" * 64], index=[1], world_size=[2])
    one = np.ones(n, int)
    steps = frame("steps", n, step=np.arange(n), step_time_s=np.asarray(times), copy=one, steps_averaged=one)
    return {"runs": runs, "steps": steps, **more}


def traced_ranks(ranks: int = 2, steps: int = 2) -> Tables:
    """Rank r computes 300 + 100 r of 1000 ns, moves 300 ns of which 100 are hidden, and copies 50."""
    events = []
    for r in range(ranks):
        who = {"rank": r, "part": r, "device": r}
        for s in range(steps):
            at = 1000 * s
            events += [step(s, at, at + 1000, rank=r, part=r), kernel(at, at + 300 + 100 * r) | who]
            events.append(reduce(at + 200 + 100 * r, at + 500 + 100 * r) | who)
            events.append(kernel(at + 950, at + 1000, "Memcpy DtoH (Device -> Pinned)", kind="memcpy") | who)
    return by_hand(events)
