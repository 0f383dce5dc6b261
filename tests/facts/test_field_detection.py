"""Which format each real log is found to be in; no format of the field claims a log that is not its own."""

from __future__ import annotations

import pytest
from support.field_logs import CORPUS, corpus, index, needs_corpus
from support.reading import NAMES, read, sample
from support.seeds import FILES, path

from perflog.errors import InputError

OWN = {
    "moe/": ["moe_layer"],
    "nccl/": ["nccl_tests"],
    "llmc/store": ["llmc"],
    "llmc/Chen": ["nanogpt"],
    "megatron/": ["megatron", "deepspeed"],
    "deepspeed/OA": ["deepspeed_profile"],
    "deepspeed/store": ["deepspeed", "megatron"],
    "hftrainer/": ["bars", "hf_trainer"],
    "mllog/": ["metric_logger", "mlperf", "coco", "bars"],
    "dllogger/": ["dllogger"],
}
OF_STEPS = {"hftrainer/": "hf_trainer", "deepspeed/store": "megatron", "megatron/": "megatron"}
"""The format of the step lines, where another reads more lines."""

FIELD = {
    "nccl_tests", "llmc", "nanogpt", "fastmoe", "megatron", "deepspeed", "deepspeed_profile", "hf_trainer", "mlperf",
    "metric_logger", "dllogger", "jsonl", "speedrun", "nemo", "maxtext",
}  # fmt: skip
"""The formats that these tests are about."""


@needs_corpus
@pytest.mark.parametrize("start", OWN)
def test_a_real_log_is_found_to_be_in_its_format(start: str) -> None:
    log = corpus(start)
    assert log.done.formats == OWN[start]
    assert {r["format"] for r in log.rows("runs")} == {OF_STEPS.get(start, OWN[start][0])}


@needs_corpus
def test_no_other_real_log_is_claimed() -> None:
    for name in index():
        if any(name.startswith(start) for start in OWN) or name.endswith((".sqlite", ".json.gz")):
            continue
        try:
            found = read((CORPUS / name).read_bytes()).done.formats
        except InputError:
            continue  # nothing in it is recognised
        assert not FIELD & {*found}, name


@pytest.mark.parametrize("name", FILES)
def test_no_seed_is_claimed(name: str) -> None:
    assert not FIELD & {*read((path(name)).read_bytes()).done.formats}


@pytest.mark.parametrize("name", NAMES)
def test_no_sample_is_claimed(name: str) -> None:
    assert not FIELD & {*read(sample(name)).done.formats}
