"""One data model: modules read tables as numpy columns."""

from __future__ import annotations

import re

import pytest
from support.paths import ROOT

PACKAGES = ("metrics", "analysis", "plots", "output")
OF_ARROW = {"analysis/live_steps.py"}  # `tables` is a mapping of Arrow tables there
READS_FRAME = re.compile(r'tables\["(\w+)"\]|\.by_run\("(\w+)"\)|\.frame\("(\w+)"\)')


@pytest.mark.parametrize("package", PACKAGES)
def test_only_table_kernels_is_read_as_a_dataframe(package: str) -> None:
    folder = ROOT / "perflog"
    found = {
        (path.relative_to(folder).as_posix(), next(filter(None, match.groups())))
        for path in (folder / package).rglob("*.py")
        for match in READS_FRAME.finditer(path.read_text("utf-8"))
    }
    assert {(path, name) for path, name in found if name != "kernels" and path not in OF_ARROW} == set()
