"""The profile of the reference run as metrics take it, and made-up profiles: their rows of table `kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.paths import ROOT
from support.seeds import log

import perflog
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

WHERE = ("seed", "reference")


def nvprof_profile(where: str) -> perflog.Log:
    """The profile, read from its log or as the reference run holds it."""
    if where == "reference":
        store = perflog.load(ROOT / "reference_runs" / "store")
        return store.select(*[run for run in store.run_keys if run.log == "nvprof.txt"])
    return log("nvprof")


def profile_of(given: list[dict[str, Any]]) -> dict[str, pd.DataFrame]:
    """Tables of one run with these rows of table `kernels`."""
    import pandas as pd

    run = {c.name: None for c in TABLES["runs"]} | {"run": "r", "label": "made up", "index": 1}
    blank = {c.name: None for c in TABLES["kernels"]} | {"run": "r", "part": 0, "section": 1}
    return {
        "runs": pd.DataFrame([run]),
        "kernels": pd.DataFrame([blank | r | {"line": n} for n, r in enumerate(given)]),
    }
