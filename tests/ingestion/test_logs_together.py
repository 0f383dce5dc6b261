"""Logs that are read together give the tables and results that each gives by itself."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict
from support.examples import examples
from support.paths import SHARED, TESTS

from perflog.ingestion.pipeline import ingest
from perflog.ingestion.together import read_together
from perflog.parsing.input.source import open_source
from perflog.tables.row_order import in_order
from perflog.tables.sink import IngestResult, MemorySink

_DECIMALS = re.compile(r"(?<=\d\.)\d{2,}")
DATA, CAMPAIGNS = TESTS / "data", SHARED / "campaigns"
_SAMPLES = sorted(path for path in DATA.rglob("*") if path.suffix in (".txt", ".log", ".jsonl", ".out", ".err"))


def varied(text: str, seed: int) -> str:
    """The text with other decimals."""
    digits = random.Random(seed)
    return _DECIMALS.sub(lambda match: "".join(digits.choice("123456789") for _ in match[0]), text)


def damaged(text: str, seed: int) -> str:
    """The text with a line left out, printed twice, cut, or written over another one."""
    choice, lines = random.Random(seed), text.splitlines(keepends=True)
    at, other = choice.randrange(len(lines)), choice.randrange(len(lines))
    change = seed % 6
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(at, lines[at])
    elif change == 2:
        del lines[max(at, 1) :]
    elif change == 3:
        lines[at] = lines[at][: len(lines[at]) // 2] + "\n"
    elif change == 4:
        lines[at] = lines[at].rstrip("\n") + lines[other]
    else:
        lines[at] = f"note {seed}: value 7.25 of x\n\r\n"
    return "".join(lines)


def write(folder: Path, texts: Sequence[str]) -> list[Path]:
    paths = [folder / f"log_iter{k}_rank{k % 2}.txt" for k in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, errors="surrogateescape")
    return paths


def rows(sink: MemorySink, result: IngestResult) -> dict[str, str]:
    ids = [run["run"] for run in result.runs]
    tables = {name: in_order(sink.fetch(name), ids) for name in sink.tables}
    return {name: str(table.to_pylist()) for name, table in sorted(tables.items()) if len(table)}


def check(paths: Sequence[Path]) -> int:
    """Compare the logs that are read together with each by itself. Return their number."""
    sources = {open_source(str(path)).digest(): open_source(str(path)) for path in paths}
    together = MemorySink()
    results = read_together(list(sources.values()), [None] * len(sources), together)
    for source, result in zip(sources.values(), results, strict=True):
        if result is not None:
            alone = MemorySink()
            expected = ingest(source, alone.reset, threads=1)
            assert asdict(result) == asdict(expected), source.name
            assert rows(together, result) == rows(alone, expected), source.name
    return sum(result is not None for result in results)


def test_logs_that_differ_in_their_numbers(tmp_path: Path) -> None:
    """Most of them are read together: where all are read alone, the property says nothing.

    Many programs of 2026 print tables and blocks, and are not counted.
    """
    read = {}
    for k, sample in enumerate(_SAMPLES):
        folder = tmp_path / str(k)
        folder.mkdir()
        text = sample.read_text(errors="surrogateescape")
        texts = [varied(text, seed) for seed in range(3)]
        count = check(write(folder, texts))
        if sample.parent.name != "programs_2026" and len({*texts}) == 3:
            read[sample.name] = count
    assert sum(count == 3 for count in read.values()) * 2 > len(read), read


@examples(40)
@given(
    sample=st.sampled_from(["moe_layer.txt", "reference.txt", "training_sweep.txt", "pipeline_layers.txt"]),
    changes=st.lists(st.one_of(st.none(), st.integers(0, 10**6)), min_size=3, max_size=8),
)
def test_logs_that_differ_in_some_lines(
    tmp_path_factory: pytest.TempPathFactory, sample: str, changes: list[int | None]
) -> None:
    text = "".join((DATA / sample).read_text().splitlines(keepends=True)[:90])
    texts = [varied(text, k) if seed is None else damaged(varied(text, k), seed) for k, seed in enumerate(changes)]
    check(write(tmp_path_factory.mktemp("logs"), texts))


LINES = {
    "int": "epoch {k} loss 3 acc 0.5\n",
    "float": "epoch {k} loss 3.{k} acc 0.5\n",
    "long": "epoch {k} loss 3.12345678901234567{k} acc 0.5\n",
    "more": "epoch {k} loss 3.{k} acc 0.5 lr 0.001\n",
    "time": "it {k}: time 20.{k}ms mem 300 MB\n",
    "clock": "it {k} elapsed 00:0{k}:1{k} left 00:{k}9:0{k}\n",
    "colon": "loss: 2.{k}, lr: 0.01\n",
    "numbered": "layer_{k} gate {k}: 0.5\n",
    "json": '{{"step": {k}, "loss": 2.{k}}}\n',
    "json_zeros": '{{"step": {k}, "loss": 2.{k}00}}\n',
    "json_small": '{{"step": {k}, "loss": 0.0000{k}}}\n',
    "table": "name  loss  time\na{k}  1.{k}  2.5\n",
    "rank": "[rank{k}]: loss: 2.{k}, lr: 0.01\n",
    "summary": "epoch {k} mean loss 3.{k}\n",
    "bar": " {k}%|#   | {k}/9 [00:0{k}<00:09, 1.{k}it/s]\r",
    "words": "saved a checkpoint\n",
    "blank": "\n",
}


@examples(40)
@given(
    shape=st.lists(st.sampled_from(list(LINES)), min_size=2, max_size=8),
    numbers=st.lists(st.lists(st.integers(0, 9), min_size=8, max_size=8), min_size=3, max_size=6),
    others=st.lists(st.lists(st.sampled_from(list(LINES)), min_size=2, max_size=8), max_size=2),
)
def test_lines_of_families(
    tmp_path_factory: pytest.TempPathFactory, shape: list[str], numbers: list[list[int]], others: list[list[str]]
) -> None:
    """What one log shows of the lines of families does not change how another one is read."""
    shapes = [*([shape] * len(numbers)), *others]
    texts = [
        "".join(LINES[name].format(k=k) for name, k in zip(names, numbers[log % len(numbers)], strict=False))
        for log, names in enumerate(shapes)
    ]
    check(write(tmp_path_factory.mktemp("logs"), texts))


def test_no_average_is_looked_for_by_the_steps_of_another_log(tmp_path: Path) -> None:
    """Two logs with windows of other lengths: the first must not tell the second where to look."""
    text = (DATA / "moe_layer.txt").read_text()
    check(write(tmp_path, [varied(text, 1), *[text.replace("\n", f"\nnote {k}\n", k) for k in range(1, 5)]]))


@pytest.mark.skipif(not CAMPAIGNS.is_dir(), reason="needs the campaigns of the shared folder")
@pytest.mark.parametrize(
    "campaign", ["nanogpt_fp8", "mlperf_llama2_lora", "nccl_pairs", "expert_loads", "golden_history"]
)
def test_real_campaigns(campaign: str) -> None:
    files = sorted(path for path in (CAMPAIGNS / campaign).rglob("*") if path.is_file())[:6]
    assert check(files) > len(files) // 2
