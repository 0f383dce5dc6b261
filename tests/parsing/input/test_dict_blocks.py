"""A dict that a program prints over several lines becomes one line; lines keep their numbers."""

from __future__ import annotations

import pytest

from perflog.parsing.input.dict_blocks import joined_dicts

ACTOR = "(TaskRunner pid=7) "
CONFIG = """\
before
{0}{{'actor': {{'name': "it's {{", 'lr': 1e-06,
{0}            'path': 'a long '
{0}                    'path'}},
{0} 'steps': [1,
{0}           2]}}
{0}after
"""
LINE = """{}{{'actor': {{'name': "it's {{", 'lr': 1e-06, 'path': 'a long path'}}, 'steps': [1, 2]}}"""


@pytest.mark.parametrize("front", ["", ACTOR, f"[pod/TaskRunner-pid-7] {ACTOR}", f"\x1b[36m{ACTOR.strip()}\x1b[0m "])
@pytest.mark.parametrize("size", [1, 50, 4096])
def test_a_dict_is_one_line(front: str, size: int) -> None:
    data = CONFIG.format(front).encode()
    text = b"".join(joined_dicts(data[k : k + size] for k in range(0, len(data), size))).decode()
    assert text.split("\n") == ["before", LINE.format(front), *[""] * 4, f"{front}after", ""]


@pytest.mark.parametrize(
    "text",
    [
        "{'loss': 2.5}\n",  # a whole one
        "{'loss': 2.5, 'lr':\nstep 2\n 'x'}\n",  # text between its lines
        f"{ACTOR}{{'loss': 2.5,\n(Worker pid=8)  'lr': 1}}\n",  # of another process
        "{'loss': 2.5,\n 'lr': 1\n",  # the log ends
        "{'loss': 2.5,",
        "{'a'} and {'b'} differ\n next\n",
    ],
)
def test_other_lines_stay_as_they_are(text: str) -> None:
    assert b"".join(joined_dicts([text.encode()])).decode() == text
