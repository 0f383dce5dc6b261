"""Pickles of plain data: what holds up the unpickler is refused before it sees it, plain data is read."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT

from perflog.errors import PerflogError
from perflog.readers.dumps.plain_pickles import NotPlainError, load

ATOMS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=300)
PLAIN = st.recursive(
    ATOMS | st.tuples(ATOMS, ATOMS) | st.tuples(ATOMS) | st.tuples(ATOMS, ATOMS, ATOMS),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner, max_size=20),
    max_leaves=60,
)


@given(PLAIN, st.integers(2, 5))
def test_plain_data_is_read(data: Any, protocol: int) -> None:
    assert load(pickle.dumps(data, protocol)) == data


@pytest.mark.parametrize("protocol", [2, 4])
def test_more_values_than_a_byte_numbers(protocol: int) -> None:
    data = [(f"name {k}", k) for k in range(300)]
    assert load(pickle.dumps(data, protocol)) == data


@given(PLAIN, st.integers(2, 5), st.integers(0, 1 << 16))
def test_a_cut_pickle_is_an_error(data: Any, protocol: int, end: int) -> None:
    packed = pickle.dumps(data, protocol)
    with pytest.raises((PerflogError, pickle.UnpicklingError, EOFError, ValueError, IndexError)):
        load(packed[: end % len(packed)])


def nested(depth: int, protocol: int) -> bytes:
    """A tuple of twice the same tuple of twice the same tuple, as a key: its hash takes 2 ** depth steps."""
    value: Any = (1, 2)
    for _ in range(depth):
        value = (value, value)
    return pickle.dumps({"a": value}, protocol)


GET_TWICE = b"".join(b"h%ch%c\x86q%c" % (k, k, k + 1) for k in range(60))

BOMBS: dict[str, Callable[[], bytes]] = {
    "tuples in protocol 2": lambda: nested(60, 2),
    "tuples in protocol 4": lambda: nested(60, 4),
    "a key": lambda: b"\x80\x02}(K\x01K\x02\x86q\x00" + GET_TWICE + b"K\x01u.",
    "a tuple that is doubled": lambda: b"\x80\x02}(K\x01K\x02\x86" + b"2\x86" * 60 + b"K\x01u.",
    "a memo of 2 billion": lambda: b"\x80\x02}r\xff\xff\xff\x7f.",
    "code": lambda: pickle.dumps(print, 2),
    "a set": lambda: pickle.dumps(frozenset({1}), 4),
    "a long text that is not there": lambda: b"\x80\x04\x8d" + b"\xff" * 7 + b"\x00a.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_no_dump_holds_is_refused(name: str) -> None:
    with pytest.raises(NotPlainError):
        load(BOMBS[name]())


def test_a_refusal_takes_no_time_and_no_memory() -> None:
    """In a process of its own, whose memory and time are limited: no bomb reaches the unpickler."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (20, 20)); import sys\n"
        "sys.path[:0] = ['tests', 'tests/readers']; import test_plain_pickles as t\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
        "for bomb in t.BOMBS.values():\n"
        "    try: t.load(bomb())\n"
        "    except t.NotPlainError: pass\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
