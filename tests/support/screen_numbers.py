"""The numbers that a screen of perflog prints, each of which a test has to explain.

A test recomputes each number from the raw file and names it with the words around it:

    screen = Screen(text)
    screen.explain("Bottleneck: forward, <> of the step.", forward / step)
    screen.all_explained()

`<>` stands for a number with its unit, `<name>` for some words. Values are in base units: seconds, and shares of 1 for
percent. The last call fails where the screen holds a number that no test explained. A word with letters is a name and
no number (`float16`, `cuda:0`, `1F1B`, `kernel5`), and so is the mark of a run (`#4`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from support.commands import run

UNITS = {
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "%": 0.01,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}

_NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_UNIT = rf"(?: (?:{'|'.join(UNITS)})(?!\w))?"
_IN_WORDS = re.compile(rf"({_NUMBER})({_UNIT})")
_WORD = re.compile(r"[^\s()\[\],;]+(?:,\d[^\s()\[\],;]*)*")
_WITH_UNIT = re.compile(rf"{_NUMBER}(?:{'|'.join(UNITS)}|[kKMGT]?i?B)?[.:…]*")
_COMMANDS = re.compile(r" (?:and \d+ more kinds? of findings: )?perflog lint .*| Next: .*")


@dataclass
class Screen:
    """A screen as one text. `digits`: significant digits of times, and of shares; the screen drops zeros at the end.

    `is_full`: it has as many lines as a screen may have, so sentences may be cut.
    """

    text: str
    digits: tuple[int, int] = (3, 0)
    explained: set[int] = field(default_factory=set)
    is_full: bool = False

    def explain(self, words: str, *values: float) -> None:
        """Compare the numbers in the only passage with these words with the values, to the last printed digit."""
        pattern = re.escape(words).replace("<>", f"({_NUMBER}{_UNIT})").replace("<name>", "[^\n]*?")
        passages = [*re.finditer(rf"(?<!\S){pattern}", self.text)]
        assert len(passages) == 1, f"{len(passages)} times on the screen: {words}\n{self.text}"
        texts = passages[0].groups()
        assert len(texts) == len(values), (words, values)
        for place, (text, value) in enumerate(zip(texts, values, strict=True), 1):
            assert printed_as(text, value, self.digits), f"{words}: number {place} is {text!r}, recomputed {value!r}"
            self.explained.update(range(*passages[0].span(place)))

    def named(self, *names: str) -> None:
        """Take texts that the raw file holds for names, with the digits in them."""
        for name in names:
            places = [match.span() for match in re.finditer(re.escape(name), self.text)]
            assert places, f"not on the screen: {name}\n{self.text}"
            for start, end in places:
                self.explained.update(range(start, end))

    def all_explained(self) -> None:
        """Fail if the screen holds a number that no test explained."""
        left = [word for start, word in _numbers(self.text) if start not in self.explained]
        assert not left, f"nothing recomputes {left} on this screen:\n{self.text}"


def _numbers(text: str) -> Iterable[tuple[int, str]]:
    """Yield the places of all groups of digits in words that are numbers, and these words."""
    for match in _WORD.finditer(text):
        word = match[0]
        is_name = word.startswith("#") or any(c.isalpha() for c in word)
        if any(c.isdigit() for c in word) and (not is_name or _WITH_UNIT.fullmatch(word)):
            for digits in re.finditer(r"\d+", word):
                yield match.start() + digits.start(), word


def printed_as(text: str, value: float, digits: tuple[int, int]) -> bool:
    """Whether a number with its unit is the value, rounded to the printed digits, or to the digits of its unit."""
    number, unit = _IN_WORDS.fullmatch(text).groups()  # type: ignore[union-attr]
    scaled = value / UNITS[unit.strip()] if unit else value
    if "e" in number:
        return f"{scaled:g}" == number
    whole, _, decimals = number.replace(",", "").partition(".")
    least = 0 if not unit else digits[1] if unit == " %" else digits[0]
    places = max(len(decimals), least - len(whole.lstrip("+-0")))
    if whole.startswith(("+", "-")) and (float(number.replace(",", "")) < 0) != (scaled < 0):
        return False
    near = (abs(scaled) * (1 + nudge) for nudge in (0, 1e-12, -1e-12))  # halves may round either way
    return f"{abs(float(number.replace(',', ''))):.{places}f}" in {f"{each:.{places}f}" for each in near}


def overview_screen(path: Path, *others: Path) -> Screen:
    """The screen of `perflog LOG...` on one line, without the name of the log and the commands to go on with."""
    shown = run(path, *others).stdout
    lines = shown.splitlines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 80, shown
    text = " ".join(" ".join(lines).split())
    name, _, rest = text.partition(": ")
    name = name.removesuffix(f" and {len(others)} more") if others else name
    start, _, end = name.partition("…")
    assert path.name.startswith(start) and path.name.endswith(end), name
    return Screen(_without_commands(rest), is_full=len(lines) == 25)


def _without_commands(text: str) -> str:
    """Leave out the commands, but count the findings that `perflog lint` would add: see `kinds_of_findings`."""
    more = re.search(r"(and \d+ more kinds? of findings): perflog lint", text)
    return _COMMANDS.sub("", f"{text} ") + (f" {more[1]}" if more else "")


def kinds_of_findings(*paths: Path) -> int:
    """Number of rules of which `perflog lint` has a finding that the overview counts."""
    report = run("lint", *paths, "--format", "json").stdout
    return len(set(re.findall(r'"code": "([a-z0-9-]+)"', report)) - {"ranges-on-device"})  # it doubts no metric here


def waterfall_screen(path: Path) -> Screen:
    """The rows of `perflog analyze LOG waterfall`, one after the other, without their formulas below."""
    text = run("analyze", path, "waterfall").stdout.partition("the bars divide")[0]
    return Screen("\n".join(" ".join(line.split()) for line in text.splitlines()), digits=(4, 4))


def check_bar(screen: Screen, name: str, time: float, whole: float) -> None:
    """A bar of the overview: its share, its time, and its length, of which 24 characters are the whole."""
    bar = "#" * max(round(24 * time / whole), 1)
    screen.explain(f"{name} <> <> {bar} ", time / whole, time)
