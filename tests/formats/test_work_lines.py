"""Lines that say how long some work took."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog

Values = dict[str, tuple[float, str | None]]


def values(tmp_path: Path, text: str) -> Values:
    path = tmp_path / "run.txt"
    path.write_text(f"Throughput: 812.3 samples/s\n{text}\n", "utf-8")
    rows = perflog.read(path).arrow("values").to_pylist()
    return {row["key"]: (row["value"], row["unit"]) for row in rows if row["line"] > 1}


def assert_values(found: Values, expected: Values) -> None:
    """Compare values with a tolerance, and their units exactly."""
    assert {key: value for key, (value, _) in found.items()} == pytest.approx({k: v for k, (v, _) in expected.items()})
    assert {key: unit for key, (_, unit) in found.items()} == {key: unit for key, (_, unit) in expected.items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Processed 24000 training sample(s) in 1443.67 seconds.", {
            "Processed_training_sample": (24000, None), "Processed_training_sample_time": (1443.67, "s"),
        }),
        ("[2025-05-17T05:01:04] Copied 2.0 GiB (100%) in 2.0 secs (1.5 GB/s) done", {
            "Copied_size": (2.0**31, "B"), "Copied_time": (2.0, "s"), "bandwidth": (1.5, "GB/s"),
        }),
        ("Processed 2000 documents (188.08 docs/s, 2.5 MB/s).", {
            "Processed_documents": (2000, None), "docs_per_s": (188.08, "1/s"), "bandwidth": (0.0025, "GB/s"),
        }),
        ("model loaded: 7.2 GB in 14.3 s", {"model_loaded_size": (7.2e9, "B"), "model_loaded_time": (14.3, "s")}),
        ("[bench] code run 1/5: 1000 tok in 54.4s (18.5 decode TPS, ttft 500ms)", {
            "code_run": (1, None), "tok": (1000, None), "tok_time": (54.4, "s"), "decode_TPS": (18.5, "1/s"),
            "ttft": (0.5, "s"),
        }),
        ("Processed 10 samples in 0.5 ms (20k samples/s, 2.5 M tok/s)", {
            "Processed_samples": (10, None), "Processed_samples_time": (0.0005, "s"),
            "samples_per_s": (20_000, "1/s"), "tok_per_s": (2.5e6, "1/s"),
        }),
        ("Ran 1000 requests in 45 seconds: 22.1 req/s", {
            "Ran_requests": (1000, None), "Ran_requests_time": (45, "s"), "req_per_s": (22.1, "1/s"),
        }),
    ],
)  # fmt: skip
def test_words_before_the_time_name_it(tmp_path: Path, line: str, expected: Values) -> None:
    assert_values(values(tmp_path, line), expected)


def test_a_time_without_a_count_is_read_where_other_lines_are_measured(tmp_path: Path) -> None:
    found = values(tmp_path, "Compilation took 45.3 seconds\nWarmup done in 12.1s")
    assert found["Compilation_time"] == (45.3, "s")
    assert found["Warmup_time"] == (12.1, "s")
    assert values(tmp_path, "[drafter] forward+score in 1.5s")["forward_score_time"] == (1.5, "s")


def test_a_size_in_brackets_after_the_same_size_is_no_mean(tmp_path: Path) -> None:
    assert set(values(tmp_path, "Peak memory: 2.0 GiB (2147483648 bytes)")) == {"Peak_memory"}


@pytest.mark.parametrize(
    "line",
    [
        "Retrying 3 requests in 5 s", "Timed out 12 requests in 30 s", "We ran 3 experiments on 2 nodes in 2023",
        "Starting 8 runs in 10 seconds", "It was shown that 100 steps took 5 s on all of the machines we tried",
    ],
)  # fmt: skip
def test_sentences_and_times_that_are_waited_for_are_no_work(tmp_path: Path, line: str) -> None:
    assert not values(tmp_path, line)


def test_a_rate_proves_that_a_log_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("Generated 128 new tokens in 4.12 seconds: 31.07 tok/s\n", "utf-8")
    assert [row["value"] for row in perflog.read(path).arrow("values").to_pylist()] == [128, 4.12, 31.07]
