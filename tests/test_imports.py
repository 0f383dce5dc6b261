"""Modules import in one direction, help is light, and files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

# A module imports only what stands before it here. A new module (or package) takes its place in the list.
ORDER = [
    "errors",
    "bundled",
    "units",
    "schema",
    "template",
    "expr",
    "entries",
    "flops",
    "declared",
    "families",
    "lineentry",
    "pairs",
    "tabular",
    "tableentry",
    "objects",
    "familyfile",
    "formatfile",
    "formats",
    "processes",
    "launch",
    "trainer",
    "names",
    "chunks",
    "source",
    "arrow",
    "rows",
    "needles",
    "ingested",
    "readers",
    "plain",
    "columnar",
    "labels",
    "batch",
    "layouts",
    "glue",
    "scan",
    "grown",
    "cells",
    "beneath",
    "scopes",
    "resolve",
    "printings",
    "runs",
    "printouts",
    "columns",
    "tables",
    "frames",
    "windows",
    "steps",
    "ranks",
    "assemble",
    "detect",
    "joins",
    "nearest",
    "ahead",
    "parquet",
    "store",
    "ingest",
    "malloc",
    "log",
    "gather",
    "stats",
    "resampling",
    "meaning",
    "classify",
    "intervals",
    "series",
    "hardware",
    "metrics",
    "linter",
    "comparison",
    "plots",
    "timeline",
    "tracks",
    "export",
    "suggest",
    "report",
    "views",
    "explain",
    "analysis",
    "compared",
    "page",
    "regenerate",
    "bar",
    "options",
    "commands",
    "cli",
    "__main__",
]

# Nothing of these while only help is printed: they cost more than the rest of the start-up together.
HEAVY = ["matplotlib", "numpy", "pandas", "pyarrow", "rich", "torch"]

FILE_LINES = 320
FUNCTION_LINES = 60

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "perflog"
SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """`template` for perflog/template.py, `readers` for any file of the package perflog/readers."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports_of(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and module of each import from perflog, also those inside functions and those for types alone."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            # `from perflog import units` names a module, `from perflog.units import show` a thing in it
            names = [f"perflog.{a.name}" for a in node.names] if node.module == "perflog" else [node.module or ""]
        elif isinstance(node, ast.ImportFrom):
            names = ["perflog.<relative>"]  # never written here; one spelling keeps this test short
        else:
            continue
        found += [(node.lineno, name.split(".")[1]) for name in names if name.startswith("perflog.")]
        found += [(node.lineno, "__init__") for name in names if name == "perflog"]
    return found


def points_back(module: str, tree: ast.AST) -> list[str]:
    """What in `module` imports itself from the right of it."""
    allowed = ORDER[: ORDER.index(module) + 1]  # itself too: the files of a package know each other
    allowed.append("__version__")  # not a module: the package knows its own version
    return [f"line {line}: imports {name}" for line, name in imports_of(tree) if name not in allowed]


def test_every_module_has_its_place() -> None:
    missing = {module_of(path) for path in SOURCES} - set(ORDER) - {"__init__"}
    assert not missing, f"not in ORDER of {Path(__file__).name}: {sorted(missing)}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_import_points_back(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return  # the public face: it may name any module, as long as it does so late
    assert points_back(module_of(path), ast.parse(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import perflog.cli",
        "from perflog import cli",
        "from perflog.cli import main",
        "def f():\n    from perflog.cli import main",
        "from . import errors",
        "import perflog",
        "from perflog import read",
    ],
)
def test_an_import_that_points_back_is_found(line: str) -> None:
    assert points_back("units", ast.parse(line))


def test_an_import_that_points_left_is_fine() -> None:
    assert points_back("units", ast.parse("from perflog.errors import PerflogError\nimport math")) == []


@pytest.mark.parametrize(
    "code",
    [
        "import perflog",
        "import runpy; sys.argv = ['perflog', '--help']; runpy.run_module('perflog', run_name='__main__')",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    # at exit, because help leaves by SystemExit
    look = f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    code = f"import atexit, sys; atexit.register(lambda: {look}); {code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "[]\n")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_are_short(path: Path) -> None:
    text = path.read_text("utf-8")
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}
    lines = text.count("\n")
    assert lines <= FILE_LINES
