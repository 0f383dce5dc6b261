"""The notebooks run, each with no name of another, and are stored without results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    assert book.cells[0].cell_type == "markdown"
    title = book.cells[0].source.splitlines()[0]
    assert title.startswith("# ") and title.endswith("?"), "each answers a question"
    assert len(book.cells) <= 10


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """One kernel for all notebooks: a start and the imports take longer than most of them do."""
    manager = pytest.importorskip("jupyter_client").AsyncKernelManager(kernel_name="python3")
    yield manager
    if manager.has_kernel:
        asyncio.run(manager.shutdown_kernel(now=True))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the kernel's own libraries
def test_a_notebook_runs(path: Path, kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(path, 4)
    book.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))  # the names of the notebook before
    client = nbclient.NotebookClient(
        book, km=kernel, timeout=600, startup_timeout=600, resources={"metadata": {"path": path.parent}}
    )
    try:
        client.execute()
    finally:
        client.kc.stop_channels()
    shown = [out for cell in book.cells if cell.cell_type == "code" for out in cell.outputs]
    assert not [out for out in shown if out.output_type == "stream" and out.name == "stderr"]
    pages = [out["data"]["text/html"] for out in shown if "text/html" in out.get("data", {})]
    assert any('class="perflog"' in page and "<figure" in page for page in pages), "a live plot"
