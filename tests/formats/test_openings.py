"""Openings: how the beginning of a line is known inside another one."""

from __future__ import annotations

import re

import pytest

from perflog.formats.openings import ENOUGH_OF_HEAD, opening_of
from perflog.formats.template import Template


@pytest.mark.parametrize(
    ("template", "text", "found", "literal"),
    [
        ("step {step:d} loss {loss:f} x", "a: step 12 loss 2.5 x", "step 12 loss", " loss"),
        ("[{_:s}] iteration {i:d} of {n:d}", "[x] iteration 12 of 3", "iteration 12", "iteration"),  # no string first
        ("  losses {x:f} of", "ab  losses 2.5 of", "  losses 2.5", "losses"),
        ("iteration {i:d} of {name:s}", "iteration 3 of x", "iteration 3", "iteration"),
    ],
)
def test_an_opening_goes_on_to_the_first_literals_with_enough_letters(
    template: str, text: str, found: str, literal: str
) -> None:
    opening = opening_of(Template(template))
    assert opening is not None and opening.literal == literal.encode()
    match = re.search(opening.pattern, text)
    assert match is not None and match[0].startswith(found)
    longest = re.search(opening.extent, text)
    assert longest is not None and longest[0].startswith(match[0])


def test_few_letters_are_no_opening() -> None:
    assert opening_of(Template("{n:d} ab")) is opening_of(Template("ab {a:s} cdefgh")) is None
    assert opening_of(Template("{x:w} {y:d} abcdefg")) is opening_of(Template("loss {x:f}")) is None
    assert opening_of(Template("loss {x:f}"), ENOUGH_OF_HEAD) is not None
    assert opening_of(Template("losses {x:f}")) is not None
