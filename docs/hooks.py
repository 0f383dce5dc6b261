"""Hooks of mkdocs: pages keep their paths in the repository, so that one relative link works in both."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_BARRED = re.compile(r"`([^`]*\\\|[^`]*)`")
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the project's address from pyproject.toml, and make anchors as GitHub makes them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    address = config.extra["address"] = project["urls"]["Repository"]
    # Not as repo_url: the theme would ask GitHub's API for the number of stars on each visit.
    config.extra["social"] = [{"icon": "fontawesome/brands/git-alt", "link": address, "name": "Repository"}]
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of `docs_dir` by pages that `nav` names and pictures, with paths from the repository's root."""
    pictures = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.svg"))
    pages = [File.generated(config, name, abs_src_path=str(ROOT / name)) for name in [*_named(config.nav), *pictures]]
    kept = [file for file in files if file.src_dir != config.docs_dir or file.is_css()]  # what the theme brings
    return Files([*pages, *kept])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files that are no pages, such as notebooks and folders, to the project's address.

    In the code of a table cell GitHub shows an escaped bar as a bar, Python-Markdown as it is written: an entity helps.
    """

    def outside(link: re.Match[str]) -> str:
        path = os.path.normpath(os.path.join(os.path.dirname(page.file.src_uri), link[1]))
        if files.get_file_from_path(path) or not (ROOT / path).exists():
            return link[1]
        return f"{config.extra['address']}/tree/main/{path}"

    def barred(code: re.Match[str]) -> str:
        text = escape(code[1].replace(r"\|", "|")).replace("|", "&#124;")
        return f"<code>{text}</code>"

    lines = _LINK.sub(outside, markdown).splitlines()
    return "\n".join(_BARRED.sub(barred, line) if line.startswith("|") else line for line in lines)


def _named(nav: Any) -> Iterator[str]:
    """Paths in a part of `nav`."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, list | dict):
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _named(part)
