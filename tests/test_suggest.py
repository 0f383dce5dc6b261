"""What `suggest` prints is accepted by `check`, and reads each line that it describes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reading import DATA, LABELS, NAMES, Reading, labelled, read, sample
from seeds import FILES, SEEDS, needs_seeds

from perflog import formats, suggest
from perflog import ingest as ingesting
from perflog.errors import InputError, PerflogError
from perflog.formats import COMMON, Format, known
from perflog.suggest import proof
from perflog.suggest.specs import spec_of, written
from perflog.suggest.tokens import skeleton, tokens

CORPUS = SEEDS.parent / "corpus"
HEAD = re.compile(
    r"# Of (?P<total>\d+) lines it reads (?P<read>\d+); (?P<context>\d+) more are known context, (?P<others>\d+) are "
    r"read by other\n?#? ?formats, (?P<blank>\d+) are blank, (?P<unread>\d+) are unread"
)


def log_of(folder: Path, data: bytes) -> str:
    path = folder / "run.txt"
    path.write_bytes(data)
    return str(path)


def checked(folder: Path, text: str) -> Format:
    """The suggestion as `perflog formats check` takes it."""
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return formats.get(str(path))


def proved(folder: Path, data: bytes, **options: Any) -> tuple[Format, Reading]:
    """A suggestion for a log, checked, and the log read with it at once."""
    text = suggest.suggest(log_of(folder, data), **options)
    form = checked(folder, text)
    names = [x.name for x in form.lines if x.read]
    assert len(set(names)) == len(names)
    got = read(data, formats=[form])
    said = HEAD.search(text)
    assert said is not None, text
    told = {key: int(number) for key, number in said.groupdict().items()}
    assert got.done.lines["total"] == told["total"]
    assert got.done.lines["unread"] == told["unread"] + told["others"] - common_of(got)
    return form, got


def common_of(got: Reading) -> int:
    """Lines that the common formats account for."""
    texts = {x.template.text for x in known()[COMMON].lines}
    return sum(r["count"] for r in got.rows("lines") if r["shape"] in texts)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no log had been described yet."""
    only = {COMMON: known()[COMMON]}
    for module in (suggest, proof, formats, ingesting):
        monkeypatch.setattr(module, "known", lambda: only)


# --- logs of any style ----------------------------------------------------------------------------------------------

WORDS = ("loss", "step time", "lr", "grad_norm", "foward_time", "tokens/s", "memory", "mfu", "wait", "gemm1 duration")
SPECS = (".3f", ".6f", "d", ".4e", ".3E", "9.2f", "7d", ",d", "r", "g", "<8d", "05d")
UNITS = ("", "ms", " ms", "%", "GiB", " tok/s", " sec", "us")
MIDS = (" = ", "=", ": ", ":", " ")
SEPARATORS = (", ", " | ", "; ", "  ", " ")
HEADS = (
    "",
    "[INFO] ",
    "2024-04-04 09:09:27,719 - root - INFO - ",
    "[Rank 3] ",
    ">>> ",
    "I0515 train.py:207] ",
    "  #1 ",
)
STEPS = ("STEP-{}: ", "step {:5d}/100 | ", "iter {}, ", "[{}/100] ", "Epoch: [3][{:3d}/200]  ", "{} ")


@st.composite
def styles(draw: st.DrawFn) -> tuple[str, list[str]]:
    """One print string: its head, and how each of its numbers is printed."""
    head = draw(st.sampled_from(HEADS)) + draw(st.sampled_from(STEPS))
    mid, between = draw(st.sampled_from(MIDS)), draw(st.sampled_from(SEPARATORS))
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5, unique=True))
    fields = [f"{w}{mid}{{{{:{draw(st.sampled_from(SPECS))}}}}}{draw(st.sampled_from(UNITS))}" for w in words]
    return head, [f"{between}{x}" if i else x for i, x in enumerate(fields)]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A log of a few print strings, each printed some times with numbers of any size."""
    chosen = draw(st.lists(styles(), min_size=1, max_size=3))
    numbers = st.one_of(st.integers(0, 9), st.integers(0, 10**7), st.floats(0, 1e5), st.floats(1e-6, 1))
    out = []
    for step in range(draw(st.integers(1, 12))):
        for head, fields in chosen:
            texts = [head.format(step)]
            for text in fields:
                number = draw(numbers)
                spec = text[text.index("{{:") + 3 : text.index("}}")]
                value = round(number) if spec[-1] == "d" else float(number)
                shown = repr(value) if spec == "r" else format(value, spec)
                texts.append(text[: text.index("{{:")] + shown + text[text.index("}}") + 2 :])
            out.append("".join(texts))
    return ("\n".join(out) + "\n").encode()


@settings(max_examples=60, deadline=None)
@given(logs())
def test_a_log_of_any_style(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    _, got = proved(tmp_path_factory.getbasetemp(), data)
    assert got.done.lines["unread"] == 0, [r["sample"] for r in got.rows("lines") if r["status"] == "unread"]
    assert got.balances()


@settings(max_examples=60, deadline=None)
@example(b"\xff\xfe\x00")
@example(b"\0" * 100)
@example(b"\r".join(b"step %d loss 3.5" % k for k in range(50)))
@example(b"loss 1.5\r\nloss 2.5\r\n\r\n")
@example(b"x" * (1 << 20) + b" 1.5\n")
@example(b"step 1 {loss} = 3.5 }{ \"quoted\" 'x' \\ \x1b[31mred\x1b[0m\nstep 2 {loss} = 4.5 }{ \"quoted\" 'x' \\ red\n")
@example("Schritt 1: Verlust größer 3,5 — 1.5 µs\nステップ 2 損失 3.25\n".encode())
@example(b"a 1\x0bb 2\x85c 3\x7f\na 2\x0bb 3\x85c 4\x7f\n")
@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace"))))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """A suggestion that holds, or one error in words."""
    try:
        proved(tmp_path_factory.getbasetemp(), data)
    except InputError as error:
        assert error.reason


LINES = st.text(st.sampled_from("abλ19.,:=|[]{}()/%-+e\"'\\#_ \t\r"), max_size=40)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=12).map("\n".join))
def test_lines_of_odd_marks(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        proved(tmp_path_factory.getbasetemp(), text.encode())
    except InputError as error:
        assert error.reason
