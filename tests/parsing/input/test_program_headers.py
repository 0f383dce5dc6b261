"""Headers of programs: settings with different values, in any form, and what differs in each process."""

from __future__ import annotations

import pytest

from perflog.parsing.input.program_headers import are_alike


@pytest.mark.parametrize(
    ("form", "alike"),
    [
        ("lr: {}, batch_size: 32", False), ("Namespace(lr={}, seed=1)", False), ("python train.py --lr {}", False),
        ("Learning rate {}", False), ("{{'lr': {}}}", False), ("  learning_rate ......... {}", False),
        ("| lr | {} |", False), ("lr\t{}", False), ("Loading configs/exp{}.yaml", False), ("device_lr: {}", False),
        ("lr_node: {}", False), ("tp={}", False), ("max_steps: {}", False),
        # of a process, or of a start
        ("[rank {}] ready", True), ("tp_rank={}", True), ("node{}: up", True), ("MASTER_ADDR=10.0.0.{}", True),
        ("host: n{}", True), ("pid 47{}", True), ("start_step={}", True), ("0{}:10:02 start", True),
        # measured
        ("Loaded in {} s", True), ("{} GiB are free", True),
    ],
)  # fmt: skip
def test_a_number_that_differs(form: str, alike: bool) -> None:
    assert are_alike([[form.format(1)], [form.format(2)]]) == alike
    assert are_alike([["other"], [form.format(1)], ["and", form.format(1)]])


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("optimizer: adamw", "optimizer: sgd", False), ("train.py --opt adamw -x", "train.py --opt sgd -x", False),
        ("Data: /data/a.bin", "Data: /data/b.bin", False), ("hostname=alpha", "hostname=beta", True),
        ("INFO: loading", "INFO: starting", True), ("Loading the data", "Loading the model", True),
    ],
)  # fmt: skip
def test_a_word_that_differs(one: str, other: str, alike: bool) -> None:
    assert are_alike([[one], [other]]) == alike


def test_lines_that_are_printed_several_times_are_compared_in_order() -> None:
    layers = ["layer 1: 12 heads", "layer 2: 24 heads"]
    assert are_alike([layers, layers[:1]])
    assert not are_alike([layers, layers[::-1]])
