"""The examples run: those of docstrings (doctest), and the Python of the documents. Their commands have these options.

An example finds in its folder `run.txt` and `new.txt`, two small logs of the same benchmark, the traces `trace.json`
and `shapes.json` (whose operators have shapes), and `perflog`. Blanks and line ends do not count in its output, and
`...` stands for anything.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import pytest
from support.commands import context, run
from support.paths import ROOT

import perflog
from perflog import opening
from perflog.cli.main import main

LOGS = {
    "run.txt": "data/moe_layer.txt",
    "new.txt": "data/moe_layer_early.txt",
    "trace.json": "traces/2024_epoch.json",
    "shapes.json": "traces/shapes/linear.json",
}
WITH_EXAMPLES = [
    path
    for path in sorted((ROOT / "perflog").rglob("*.py"))
    if re.search(r"^ *>>> ", path.read_text("utf-8"), re.MULTILINE)
]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("*/*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def blocks(document: Path) -> list[str]:
    """Python code of a document. Blocks behind one another may build on each other, so a document is one program."""
    return re.findall(r"^```python\n(.*?)^```$", document.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def commands(document: Path) -> list[list[str]]:
    """Calls of perflog in the shell code of a document, as arguments."""
    code = "".join(re.findall(r"^```sh\n(.*?)^```$", document.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    calls = []
    for line in re.sub(r"(^|\s)#.*", r"\1", code.replace("\\\n", "")).splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.commenters, words.whitespace_split = "", True  # run.txt#1 holds no comment
        for operator, call in groupby(words, key=lambda word: word in ("|", "||", "&", "&&", ";", ">")):
            arguments = list(call)
            if not operator and arguments[0] == "perflog":
                calls.append(arguments[1:])
    return calls


@cache
def read_once(name: str) -> perflog.Log:
    return opening.read(name)


def read(*logs: Any, **options: Any) -> perflog.Log:
    """As `perflog.read`; a log that examples share is read once."""
    shared = len(logs) == 1 and logs[0] in LOGS and not options
    return read_once(logs[0]) if shared else opening.read(*logs, **options)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the logs that examples read, and the bundled runs where the repository has them."""
    for name, log in LOGS.items():
        shutil.copy(ROOT / "tests" / log, tmp_path / name)
    (tmp_path / "reference_runs").symlink_to(ROOT / "reference_runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_of_docstrings(
    path: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perflog, "read", read)
    if "trainer" in path.relative_to(ROOT).parts:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    result = doctest.testmod(import_module(name), extraglobs={"perflog": perflog}, optionflags=FLAGS)
    assert result.attempted, "no example of this file is in a docstring"
    assert not result.failed, capsys.readouterr().out


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)], ids=lambda d: d.relative_to(ROOT).as_posix())
def test_the_python_of_a_document_runs(document: Path, folder: Path) -> None:
    for code in blocks(document):
        compile(code, str(document), "exec")  # each block by itself is Python
    exec("\n".join(blocks(document)), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "document", [d for d in DOCUMENTS if commands(d)], ids=lambda d: d.relative_to(ROOT).as_posix()
)
def test_the_commands_of_a_document_exist(document: Path) -> None:
    for words in commands(document):
        at = context(main, "perflog")
        while isinstance(at.command, click.Group) and words and not words[0].startswith("-"):
            name, command, words = at.command.resolve_command(at, words)
            assert command
            at = context(command, name or "", at)
        at.command.make_parser(at).parse_args(words)  # fails for an option that the command does not have


def test_the_guide_has_examples() -> None:
    assert blocks(ROOT / "docs" / "guide.md")
    assert len(commands(ROOT / "docs" / "guide.md")) > 10


def test_the_commands_of_the_readme_run(folder: Path) -> None:
    shutil.copy("run.txt", "base.txt")
    shutil.copytree(".", "logs", ignore=lambda _, names: [name for name in names if not name.endswith(".txt")])
    calls = commands(ROOT / "README.md")
    assert len(calls) >= 5
    for call in calls:
        run(*call)
    assert Path("report.html").stat().st_size > 10_000
    assert len(perflog.load(".perflog")) == 2
