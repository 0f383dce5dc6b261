"""Families of lines: each shape that a log shows becomes an ordinary line, whatever the chunks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.paths import ROOT
from support.reading import Reading, differences, read, write

from perflog.errors import FormatError
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format, Line
from perflog.formats.openings import Opening
from perflog.formats.registry import known
from perflog.formats.sample_checks import check_samples
from perflog.formats.template import Template
from perflog.ingestion import pipeline
from perflog.ingestion.detect import detect

OWN = 'title = "Own"\n\n[[line]]\nname = "begin"\ntable = "runs"\ntext = "begin {world_size:d} ranks"\n'


@dataclass(frozen=True)
class Keys:
    """The least there is: `keys a=1 b=2`."""

    name: str = "keys"
    pattern: str = "keys "
    required_literal: bytes = b"keys "
    proves_format: bool = True
    samples: tuple[str, ...] = ()
    text: str = "keys {key}={value}"
    openings: tuple[Opening, ...] = ()

    def lines(self, text: str) -> tuple[Line, ...]:
        if not re.fullmatch(r"keys( \w+=\d+)+", text, re.ASCII):
            return ()
        shape = re.sub(r"(\w+)=\d+", r"\1={\1:d}", text)
        return (Line(self.name, Template(shape), table="values"),)


def own(folder: Path, *families: Keys) -> Format:
    path = folder / "own.toml"
    path.write_text(OWN + 'sample = "begin 4 ranks"\n', encoding="utf-8")
    return replace(load(path), families=families)


def numbers(got: Reading) -> list[tuple[int, str, float]]:
    return sorted((r["line"], r["key"], r["value"]) for r in got.rows("values"))


def test_a_forked_process_that_knows_no_shape_yet(tmp_path: Path) -> None:
    """It scans with what the head of the log showed; what shows behind that is the same for all."""
    log = b"begin 4 ranks\nkeys z=1\n" + (b"y" * 4000 + b"\n") * 300
    log += b"keys a=1 b=2\nkeys c=3\n" + b"begin 4 ranks\n" * 3000 + b"keys d=4\nother\nkeys z=2\n" * 20
    whole = read(log, formats=[own(tmp_path, Keys())])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "_LONG", 0)
        apart = read(log, formats=[own(tmp_path, Keys())], processes=True, chunk=20_000)
    assert differences(whole.tables(), apart.tables()) == []
    assert whole.done.lines == {"total": 3364, "read": 3044, "context": 0, "unread": 320}


def test_families_that_tell_make_their_format_join_late(tmp_path: Path) -> None:
    """In `look` and behind it, also behind lines of another format."""
    form = own(tmp_path, Keys())
    assert [d.format.name for d in detect(write(LOG[14:]).head(), [form]).formats] == ["own"]
    assert detect(write(LOG[14:]).head(), [own(tmp_path, Keys(proves_format=False))]).formats == ()


def test_a_family_has_so_many_lines(tmp_path: Path) -> None:
    log = b"begin 4 ranks\n" + b"".join(b"keys k%d=1\n" % n for n in range(300))
    for size in (1 << 20, 200):
        got = read(log, formats=[own(tmp_path, Keys())], chunk=size)
        assert got.done.lines == {"total": 301, "read": 257, "context": 0, "unread": 44}
        assert got.done.warnings == ["lines of `keys` (own) have more than 256 shapes: the others stay unread"]


LOG = b"begin 4 ranks\nkeys a=1 b=2\nkeys a=3\nother\nkeys b=4 a=5\n[rank1]:keys a=6\nkeys a=7 b=8\n"
NUMBERS = [(2, "a", 1), (2, "b", 2), (3, "a", 3), (5, "a", 5), (5, "b", 4), (6, "a", 6), (7, "a", 7), (7, "b", 8)]


def test_each_shape_becomes_a_line(tmp_path: Path) -> None:
    form = own(tmp_path, Keys())
    for size in (1 << 20, 20, 1):
        got = read(LOG, formats=[form], chunk=size)
        assert numbers(got) == NUMBERS
        assert got.done.lines == {"total": 7, "read": 6, "context": 0, "unread": 1}
        assert got.balances()


def test_the_examples_of_the_grammar_are_right(tmp_path: Path) -> None:
    page = (ROOT / "parsers" / "README.md").read_text("utf-8")
    section = page[page.index("## Lines with fields that come and go") :]
    blocks = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)[:2]
    path = tmp_path / "own.toml"
    path.write_text("\n".join(blocks), encoding="utf-8")
    form = load(path)
    check_samples(form)
    log = "".join(f"{sample}\n" for family in form.families for sample in family.samples).encode()
    rows = {r["line"]: (r["step"], r["step_time_s"], r["loss"]) for r in read(log, formats=[form]).rows("steps")}
    assert rows == {1: (1, 15802.3 * 1e-3, 10.82777), 2: (12, None, 2.5)}


# --- what a file declares ---------------------------------------------------------------------------------------------

SCOPES = 'title = "t"\nscopes = ["run"]\n'
JSON = '[[json]]\nname = "j"\ntable = "steps"\nkeys = { loss = "loss" }\nsample = \'{"loss": 2.5}\'\n'
METERS = '[[meters]]\nname = "m"\ntable = "steps"\nneeds = ["loss"]\nkeys = { loss = "loss" }\nsample = "loss 2.5"\n'
PAIRS = '[[pairs]]\nname = "p"\ntable = "values"\nhead = "own"\npair = " {key}={value}"\nsample = "own a=2.5"\n'


def declared(folder: Path, text: str) -> Any:
    path = folder / "own.toml"
    path.write_text(SCOPES + text, encoding="utf-8")
    return load(path).families[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            JSON,
            {"quotes": "", "lacks": (), "phases": (), "has_plain_names": False, "when": {}, "keys": {"loss": "loss"}},
        ),
        (METERS, {"needs": (("loss",),), "measures": False, "unnamed": False, "ended": False, "pairs": False}),
        (METERS.replace("sample", "measures = true\nended = true\nsample"), {"measures": True, "ended": True}),
        (METERS.replace("sample", "unnamed = true\npairs = true\nsample"), {"unnamed": True, "pairs": True}),
        (METERS.replace('["loss"]', '["loss|val loss"]'), {"needs": (("loss", "val_loss"),)}),
        (PAIRS, {"needs": (), "lacks": (), "phases": frozenset(), "keys": {}, "text": "own {key}={value}…"}),
    ],
)
def test_what_a_family_is_unless_its_file_says_more(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    found = declared(tmp_path, text)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (" {key}{value}", "does not separate a key from its value"),
        ("{key}={value}", "does not separate adjacent pairs"),
        (" {key}={value} {x}", "is not a pair"),
        (" {key}=", "is not a pair"),
        (" {key}={value}x", "a letter cannot separate pairs"),
    ],
)
def test_what_is_no_pair(tmp_path: Path, pair: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        declared(tmp_path, PAIRS.replace(" {key}={value}", pair))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (JSON.replace("sample", "quotes = '`'\nsample"), "is not a quotation mark"),
        (JSON.replace('"loss" }', '"*" }'), "is one key, so `\\*` has no meaning"),
        (JSON.replace('"loss" }', '"two words" }'), "is not a field name"),
        (METERS.replace('needs = ["loss"]\n', ""), "neither a head nor names"),
        (METERS.replace('"loss" }', '"two words" }'), "is not a field name"),
        (METERS + METERS, "two lines are named `m`"),
        (PAIRS.replace("sample", 'needs = ["b"]\nsample'), "`needs` names `b`, which is not in `keys`"),
        (PAIRS.replace("sample", "keys = { a = 7 }\nsample"), "the value of `a` must be a string or a list of strings"),
    ],
)
def test_what_is_wrong_with_a_family(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        declared(tmp_path, text)


def test_a_family_may_read_each_of_its_samples() -> None:
    """Its pattern chooses the strings that it is tried on: a string that it leaves out is read by chance only."""
    for form in known().values():
        for family in form.families:
            pattern = re.compile(f"(?s:{family.pattern})".encode())
            left_out = [text for text in family.samples if not pattern.match(text.encode("utf-8", "surrogateescape"))]
            assert not left_out, (form.name, family)
