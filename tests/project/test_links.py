"""Links of the documents and notebooks lead to files of the repository and headings in them; what they name exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from support.paths import ROOT

import perflog

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "parsers/*.md", "reference_runs/*.md", ".github/**/*.md", "notebooks/*.ipynb")
    for path in ROOT.glob(pattern)
)
BLOCK = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[(?:[^][]|\[[^]]*\])*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|^\[[^]]+\]: (\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
NAMED_PATH = re.compile(r"`((?:perflog|tests|docs|parsers|bench|reference_runs|notebooks|\.github)/[\w./-]*)`")
NAMED_MODULE = re.compile(r"`(perflog(?!\.toml`)(?:\.[a-z_]+)+)")  # a file of users is no module
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:")


@cache
def text_of(path: Path) -> str:
    """The Markdown of a document, or that of all cells of a notebook."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return text


@cache
def anchors(path: Path) -> set[str]:
    """Names of headings, on GitHub as on the site (docs/hooks.py). For repeated headings the two differ: left out."""
    titles = HEADING.findall(BLOCK.sub("", text_of(path)))
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", title) for title in titles]
    names = Counter(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain)
    return {name for name, count in names.items() if count == 1}


def links(text: str) -> list[str]:
    """Targets of all links outside of code."""
    return [first or second for first, second in LINK.findall(CODE.sub("", BLOCK.sub("", text)))]


def broken(document: Path, target: str) -> str:
    """What is wrong with a link; nothing if it can be followed."""
    if OUTSIDE.match(target):
        return ""
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.exists():
        return f"{target}: no such file"
    if not path.is_relative_to(ROOT):
        return f"{target}: outside of the repository"
    if anchor and anchor not in anchors(path):
        return f"{target}: no such heading"
    return ""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    document = ROOT / name
    faults = [broken(document, target) for target in links(text_of(document))]
    assert [fault for fault in faults if fault] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_and_modules_that_a_document_names_exist(name: str) -> None:
    text = text_of(ROOT / name)
    assert [path for path in NAMED_PATH.findall(text) if not (ROOT / path).exists()] == []
    assert [module for module in NAMED_MODULE.findall(text) if not exists(module)] == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    thing: object = perflog
    path = "perflog"
    for part in name.split(".")[1:]:
        path += f".{part}"
        if not hasattr(thing, part):
            try:
                import_module(path)
            except ModuleNotFoundError:
                return False
        thing = getattr(thing, part)
    return True


def test_the_documents_are_looked_at() -> None:
    assert {"README.md", "CONTRIBUTING.md", "parsers/README.md", "reference_runs/README.md"} <= set(DOCUMENTS)
    assert sum(len(links(text_of(ROOT / name))) for name in DOCUMENTS) > 50


def test_a_name_that_does_not_exist_is_found() -> None:
    assert exists("perflog.read") and exists("perflog.metrics.steps") and exists("perflog.errors")
    assert not exists("perflog.reads") and not exists("perflog.errors.Nothing") and not exists("perflog.nothing.read")


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("here.md", ""),
        ("here.md#a-heading-with-code", ""),
        ("#a-heading-with-code", ""),
        ("https://example.org/nothing", ""),
        ("gone.md", "no such file"),
        ("here.md#gone", "no such heading"),
        ("#twice", "no such heading"),
    ],
)
def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, fault: str) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    document = tmp_path / "here.md"
    document.write_text(f"# A heading, with `code`\n\n## Twice\n\n## Twice\n\n[there]({target}) `[not](a.link)`\n")
    assert links(text_of(document)) == [target]
    assert broken(document, target).endswith(fault)
    assert bool(broken(document, target)) == bool(fault)


@pytest.mark.slow
def test_the_site_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--strict checks each page, link and anchor of the site, and each name that the page of Python refers to."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra docs)")
    pytest.importorskip("material", reason="mkdocs-material is not installed (extra docs)")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed (extra docs)")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    pages = [path.read_text("utf-8") for path in site.rglob("*.html")]
    assert len(pages) > 10
    loaded = r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["']?(?:https?:)?//[^"'> ]*"""
    hosts = {match for page in pages for match in re.findall(loaded, page) if 'rel="canonical"' not in match}
    assert hosts == set()  # the theme asks no other host
