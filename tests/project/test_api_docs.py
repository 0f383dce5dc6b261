"""docs/api.md describes what `perflog` exports; mkdocstrings takes the words from the docstrings."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import pytest
from support.pages import DOCS

import perflog

DESCRIBED = re.findall(r"^::: (perflog\.[\w.]+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)


def test_the_page_describes_all_that_is_exported() -> None:
    described = {name.split(".")[1] for name in DESCRIBED}
    assert set(perflog.__all__) - described == {"__version__"}


@pytest.mark.parametrize("name", DESCRIBED)
def test_what_the_page_describes_exists_and_says_what_it_is(name: str) -> None:
    thing: Any = reduce(getattr, name.split(".")[1:], perflog)
    assert isinstance(thing, dict) or thing.__doc__
