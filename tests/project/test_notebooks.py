"""The notebooks run, in a kernel of their own, and are stored without results."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_thin_and_stored_without_results(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.read(path, 4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert all(len(cell.source.splitlines()) <= 6 for cell in code), "calls and figures, no programs"
    assert book.cells[0].cell_type == "markdown" and book.cells[0].source.startswith("# ")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's own libraries
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(path, 4)
    nbclient.NotebookClient(
        book, timeout=600, startup_timeout=600, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    shown = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    assert not [out for out in shown if out.output_type == "stream" and out.name == "stderr"]
    assert sum("image/png" in out.get("data", {}) for out in shown) >= 1
