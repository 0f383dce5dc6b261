"""Which numbers of a text are figures."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.formats.figures import figure_spans
from perflog.formats.surroundings import prefix_ends
from perflog.formats.tokens import tokens
from perflog.parsing.match.figure_counts import count_figures


def figures(text: str) -> list[str]:
    return [text[begin:end] for begin, end in figure_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step_time = 20.05 ms, forward = 9.45 , backward = 10.47 .", "20.05 9.45 10.47"),
        ("epoch=0/micro_step=40/global_step=10, MemAllocated=13.25GB", "0 40 10 13.25GB"),
        ("{'loss': 0.1429, 'learning_rate': 1.785e-07, 'epoch': 2.99}", "0.1429 1.785e-07 2.99"),
        ("Epoch: [0][  10/5005] Time  0.318 ( 1.183) Acc@1 0.00 (0.2)", "0 10 5005 0.318 1.183 0.00 0.2"),
        ("  33554432   double    none      -1  1282.93   26.15  N/A", "33554432 -1 1282.93 26.15"),
        ("lr=[1.195e-05, 1.19e-05], 3,456,789 tokens, 39.7% MFU", "1.195e-05 1.19e-05 3,456,789 39.7%"),
        ("step 20/200: 13.1 TFLOP/s/GPU, speed-up 1.18x, 10,20,30", "20 200 13.1 1.18x 10 20 30"),
        ("-0.5 +2 .5 5. 1E+5 125M 4.13s/it", "-0.5 +2 .5 5. 1E+5 125M 4.13s/it"),
        # Parts of something else:
        ("2022-09-19 00:20:22,173 09/19/2022 20220919_002022 2026-01-02T03:04:05.5+01:00", ""),
        ("Sep 19 00:20:22 2022, 19 Sep 2022, 12:01:33 PM", ""),
        ("[train.py:218] [/usr/lib64/a_1.txt] ./run_3/log s3://bucket/9 10.0.0.1:29500", ""),
        ("[08/30 23:00:36] I0317 10:00:13.224641 125344476638336 a.py:181] |b.py|27| __main__:log_dist:54 -", ""),
        ("[2025-09-11-140842][I][blendcorpus/train:671:<module>] #[09/11/25 @ 14:08:45]", ""),
        (
            "worker tpu-job-8-5-15.headless-svc:8471. localhost:29500 n1.cluster.local:2379, loss.mean:12 a.com:80.5",
            "12 80.5",
        ),
        ("[292KF14:370483] PMIX ERROR: ERROR in file a.c at line 168", ""),
        ("[step:120: loss", "120"),
        ("[2024-04-04 09:09:33][INFO][utils:145] [metrics:437:log] pid 7 at line 168 (tid=3, PID: 4)", ""),
        ('  File "/usr/lib/python3.10/site.py", line 218, in main', ""),
        ("GPT-L16-H2560-16MoE fp16 h4toh 2nd 1st_a2a cuda:0 v1.2.3 2.13.0+cpu p50", ""),
        ("0x7ffd 9cf33b40d2 3f2504e0-4f89-11d3-9a0c-0305e82c3301", ""),
    ],
)
def test_figures_and_what_is_none(text: str, expected: str) -> None:
    assert figures(text) == expected.split()


_WORDS = st.sampled_from(
    ["loss", "step", "12", "0.5", "3e-4", "13GB", "2022-09-19", "00:20:22", "fp16", "a/b_1", "=", ":", ",", "(", ")",
     "[", "]", "'", '"', "|", "{", "}", " ", "  ", "\t", "Sep 19", ", line 7", "x-2", "][",
     "08/30 ", "I0317 ", "a.py", "a:b:", "[a:",
     "pid ",
     "100%", "7/9", "1,000", ".", "é", "-1"]
)  # fmt: skip


@given(st.lists(st.lists(_WORDS).map("".join)))
def test_counting_many_texts_counts_each(texts: list[str]) -> None:
    expected = [len(figure_spans(text)) for text in texts]
    assert count_figures(pa.array(texts, pa.string())).tolist() == expected
    assert count_figures(pa.array([None, *texts, "1"], pa.string()).slice(1, len(texts))).tolist() == expected


def test_bytes_that_are_no_text_and_nulls_count_too() -> None:
    assert count_figures(pa.array([b"\xff 1 \xfe2", None, b""], pa.binary())).tolist() == [2, 0, 0]


def test_a_duration_of_several_units_is_one_figure() -> None:
    assert figures("left: 1h 42m 22s of 2m27.5s, 1 minute 49 seconds") == [
        "1h 42m 22s",
        "2m27.5s",
        "1 minute 49 seconds",
    ]
    assert figures("[02d07h54m43s][HUGECTR][INFO]: 1 day, 2:03:04 at xla:0/3") == []


def test_a_rule_holds_no_figure() -> None:
    assert figures("-------- 5 ........ 6.5 ~~~~~~~~~ -7 ........8") == ["5", "6.5", "-7", "8"]


def test_prefixes_of_a_long_line_have_few_tokens() -> None:
    """Each pair looks like a token of a prefix; what may follow each of them is read."""
    assert len(prefix_ends(b"a: 1 " * 100)) == 32
    assert len(prefix_ends(b"a: 1 " * 1000)) == 6
    assert len(prefix_ends(b"a: 1 " * 100_000)) == 4
    assert len(prefix_ends(b"a: 1 " * 1000, every=True)) == 1999


@pytest.mark.parametrize("unit", ["1/2", "a1/", "1a-", "abcdef12-", "-", ".", "~"])
def test_time_is_linear_in_the_length_of_a_string(unit: str) -> None:
    text = unit * 16_000  # with a square of the length it would take a minute
    begin = time.process_time()
    prefix_ends(text.encode(), every=True)
    figure_spans(text)
    tokens(text)
    assert time.process_time() - begin < 10


def test_the_name_of_a_copy_is_no_host_before_a_line() -> None:
    assert not list(prefix_ends(b"H2D Latency: 1.5\n"))
    assert [next(iter(prefix_ends(text))) for text in (b"n1 loss: 2\n", b"gpu0 loss: 2\n", b"n1-a loss: 2\n")] == [
        3,
        5,
        5,
    ]
