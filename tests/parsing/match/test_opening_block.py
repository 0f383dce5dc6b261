"""Lines that belong to a block by their position: the source of a program above a log, and the frame of nvidia-smi."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.reading import Reading, differences, read

from perflog.errors import FormatError
from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.match.opening_block import OpeningBlock, OpeningBlocks, opening_blocks

RULE = "=" * 100
SOURCE = """\
import os
import sys

@dataclass
class Hyperparameters:
    steps = 1390
    rates = [4.0848, -6.8946, 2.9270]

for step in range(1390):
    print(f"step:{step}/1390 train_time:{1000 * t:.0f}ms step_avg:{1000 * t / step:.2f}ms")
Model(
  (a): b
)


----------------------------------------
# kernels.py
----------------------------------------

BLOCK = 128"""
SMI = """\
Fri Jul 17 13:28:52 2026       
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:8D:00.0 Off |                    0 |
| N/A   54C    P0            147W /  700W |    1521MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A         1039695      C   ...pt-challenge-py312/bin/python       1512MiB |
+-----------------------------------------------------------------------------------------+
"""  # noqa: W291
STEPS = "\n".join(f"step:{n}/1390 train_time:{57 * n}ms step_avg:57.00ms" for n in range(1, 6))
LOG = f"{SOURCE}\n{RULE}\nRunning Python 3.12.3 (main)\n{SMI}\n{RULE}\n{STEPS}\n"


def read_text(text: str, chunk: int = 1 << 20) -> Reading:
    return read(text.encode(), chunk=chunk)


def steps_of(reading: Reading) -> list[int]:
    return [row["step"] for row in reading.rows("steps")]


def figures_unread(reading: Reading) -> int:
    return int(reading.done.figures["unread"])


def test_source_and_nvidia_smi_are_context() -> None:
    reading = read_text(LOG)
    assert reading.done.lines["unread"] == 0 and figures_unread(reading) == 0
    assert reading.balances()
    assert steps_of(reading) == [1, 2, 3, 4, 5]
    assert reading.rows("runs")[0]["printout"] is None  # the text of the source is not kept
    assert reading.done.lines["read"] == 9  # steps, the total, and of the frame the driver and two lines of the GPU


@pytest.mark.parametrize("chunk", [60, 200, 1000])
def test_chunks_do_not_matter(chunk: int) -> None:
    whole, pieces = read_text(LOG), read_text(LOG, chunk)
    assert differences(whole.tables(), pieces.tables()) == []
    assert whole.done.lines == pieces.done.lines and whole.done.figures == pieces.done.figures


def test_a_rule_may_stand_above_the_source_and_a_second_source_below() -> None:
    reading = read_text(f"{RULE}\n{SOURCE}\n{RULE}\nfrom torch import nn\nwidth = 768\n{RULE}\n\n{STEPS}\n")
    assert reading.done.lines["unread"] == 0 and figures_unread(reading) == 0
    assert len(steps_of(reading)) == 5


def test_a_source_that_never_ends_stays_unread() -> None:
    reading = read_text(f"{SOURCE}\n{STEPS}\n")
    assert len(steps_of(reading)) == 5
    assert figures_unread(reading) > 0
    assert any(row["sample"] == "BLOCK = 128" and row["status"] == "unread" for row in reading.rows("lines"))


def test_a_rule_behind_the_steps_does_not_end_the_source() -> None:
    reading = read_text(f"{SOURCE}\n{STEPS}\n{RULE}\nthe end\n")
    assert len(steps_of(reading)) == 5
    assert figures_unread(reading) > 0


def test_many_alike_lines_with_numbers_are_no_source() -> None:
    unknown = "\n".join(f"it {n} took {n}.5 units" for n in range(10))
    reading = read_text(f"import os\n{unknown}\n{RULE}\n{STEPS}\n")
    assert figures_unread(reading) == 20
    assert len(steps_of(reading)) == 5


def test_a_log_cut_in_its_source_has_no_block() -> None:
    cut = LOG[LOG.index("    rates") :]
    reading = read_text(cut)
    assert len(steps_of(reading)) == 5
    assert any(row["sample"] == "BLOCK = 128" and row["status"] == "unread" for row in reading.rows("lines"))


BLOCK = '[[block]]\nname = "b"\nbegin = "begin {_:s}"\nsample = "begin x"\n'


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ('at = "end"\nend = "x"', "`at` cannot be `end`"),
        ('at = "start"\nend = "x"\nbody = "y"', "has all lines up to its end"),
        ('at = "start"', "has no `end`"),
        ("", "has no `body`"),
    ],
)
def test_a_wrong_block_is_an_error(tmp_path: Path, keys: str, reason: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(f"{BLOCK}{keys}\n")
    with pytest.raises(FormatError, match=reason):
        load(path)


def test_blocks_of_several_logs_that_are_read_together() -> None:
    """Logs of six and five lines with blocks of three and two lines, which are their first 6 and 4 bytes."""
    body, begin, end = (
        Line("source", Template(role), role=role, under_header=True) for role in ("body", "begin", "end")
    )
    lines = frozenset((body, begin, end))
    blocks = [OpeningBlock(3, 6, lines, {begin: [1], end: [3]}, b""), OpeningBlock(2, 4, lines, {begin: [2]}, b"")]
    both = OpeningBlocks(blocks, np.array([1, 7]), np.array([0, 12]))
    numbers = np.arange(1, 12)
    assert (both.last_line, both.lines) == (8, lines)
    assert numbers[both.covers(numbers)].tolist() == [1, 2, 3, 7, 8]
    assert [numbers[both.mask(line, numbers)].tolist() for line in (begin, end)] == [[1, 8], [3]]
    assert both.mask(body, np.array([1, 2, 3, 7, 8])).tolist() == [False, True, False, True, False]
    chunk = Chunk(bytearray(b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n\0\0"), 22, 1, 11, [], [])
    assert both.after(chunk) == b"d\ne\nf\ni\nj\nk\n\0\0"
    form: Any = SimpleNamespace(name="own")
    alone = Line("other", Template("body"), role="body", under_header=True)
    usual = Line("source", Template("line"))
    assert opening_blocks([(form, each) for each in (begin, alone, body, usual)]) == [[begin, body]]
