"""Kinds of failures: their samples, what is advice or code, where a message begins, and the word for a device."""

from __future__ import annotations

import pytest

from perflog.parsing.failures.kinds import (
    TRACEBACK,
    is_plain,
    kinds,
    message_start,
    needles,
    reported,
    title_of,
    undone_by,
)

SAMPLES = [(kind.name, sample) for kind in kinds().values() for text in kind.text for sample in text.samples]
FAILURES = ("[ERROR] [launch.py:324:sigkill_handler] ['/bin/python', '/u/try/until/x'] exits with return code = -11",)
NOT_FAILURES = (
    "This may be caused by CUDA out of memory on another rank",
    'raise RuntimeError("CUDA out of memory")',
    "except torch.cuda.OutOfMemoryError:",
    "If you see a Watchdog caught collective operation timeout, set NCCL_TIMEOUT",
    "# RuntimeError: CUDA error: device-side assert triggered",
    "eval_error: 0.1 | loss is 3.2",
    "Found 3 nan values in the table and dropped them",
    "Setting NCCL_ASYNC_ERROR_HANDLING to 1",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600",
    "checkpoint saved to /out/step_100",
    "gpu:2912164:2912210 [0] misc/nvmlwrap.cc:100 NCCL WARN nvmlInit_v2() failed: Driver/library version mismatch",
)


def test_each_sample_is_of_its_kind() -> None:
    for name, sample in SAMPLES:
        found = reported(sample)
        assert found is not None, sample
        assert found.kind.name == name, sample
        assert any(literal.decode() in sample for literal in needles()), sample


@pytest.mark.parametrize("text", FAILURES)
def test_words_of_paths_are_no_advice(text: str) -> None:
    assert reported(text) is not None


@pytest.mark.parametrize("text", NOT_FAILURES)
def test_advice_and_code_are_no_failures(text: str) -> None:
    assert reported(text) is None


@pytest.mark.parametrize(
    "text",
    [
        ":3:hip_memory.cpp :777 : 38529 us: [pid:9] hipMalloc: Returned hipErrorOutOfMemory :",  # PyTorch tries again
        "status = StatusCode.RESOURCE_EXHAUSTED details = Received message larger than max",
        "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
        "java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_other_limits_are_not_the_memory_of_a_device(text: str) -> None:
    report = reported(text)
    assert report is None or report.kind.name != "gpu_out_of_memory"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("CUDA Error: out of memory", "CUDA out of memory"),
        ("[CUDA ERROR] at file train_gpt2.cu:1234: out of memory", "CUDA out of memory"),
        ("RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED", "CUDA out of memory"),
        ("RuntimeError: HIP error: hipErrorOutOfMemory", "HIP out of memory"),
        # the word of the failure itself, not of the advice after it
        ("torch.OutOfMemoryError: HIP out of memory. Try setting PYTORCH_CUDA_ALLOC_CONF=x", "HIP out of memory"),
        ("torch.npu.OutOfMemoryError: Tried to allocate 2.00 GiB", "NPU out of memory"),
        ("JaxRuntimeError: RESOURCE_EXHAUSTED: Error loading program: Attempting to reserve 9.5G. (HBM0)",
         "TPU out of memory"),
        ("NPU function error: aclrtMallocHostWithCfg, error code is 207001", "host out of memory"),
        (":0:rocdevice.cpp:2692: Aborting with error : HSA_STATUS_ERROR_EXCEPTION: a hardware exception. code: 0x1",
         "a HIP error"),
    ],
)  # fmt: skip
def test_the_title_of_a_failure_has_the_word_for_its_device(text: str, title: str) -> None:
    report = reported(text)
    assert report is not None and title_of(report.kind.name, text) == title


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("CUDA error", "a CUDA error"), ("MPS backend out of memory", "an MPS error"), ("XPU error 5", "an XPU error"),
        ("HPU graph", "an HPU error"), ("an NPU", "an NPU error"), ("MUSA", "a MUSA error"),
        ("NRT: 5", "a Neuron error"),
        ("the GPU", "a GPU error"), ("words", "a device error"), ("cublas", "a CUDA error"), ("acud", "a device error"),
        ("on GPU by rocm", "a HIP error"),
    ],
)  # fmt: skip
def test_the_word_for_a_device_is_that_of_its_maker(message: str, title: str) -> None:
    assert title_of("gpu_error", message) == title


def test_other_titles_stay_as_they_are() -> None:
    assert title_of("disk_full", "No space left on device CUDA") == kinds()["disk_full"].title


@pytest.mark.parametrize(
    ("line", "start", "message"),
    [
        # a pattern from the beginning of the message, after a prefix of some tokens
        ("ValueError: bad", 0, 0), ("  ValueError: bad", 2, 2), ("[rank0] ValueError: bad", 8, 8),
        ("2024-01-01 10:00:00 INFO ValueError: bad", 25, 25),
        # a pattern anywhere: what is before it in its message stays
        ("RuntimeError: CUDA out of memory", 14, 0), ("INFO RuntimeError: CUDA out of memory", 19, 5),
        ("gpu0 GPU CUDA out of memory", 9, 5),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried", 29, 0),
        # prefixes of characters of several bytes
        ("[\u00e9\u00e9] ValueError: bad", 5, 5), ("\u00e9: CUDA out of memory", 3, 0),
    ],
)  # fmt: skip
def test_where_a_report_and_its_message_begin(line: str, start: int, message: int) -> None:
    report = reported(line)
    assert report is not None
    assert (report.start, message_start(line, report.start)) == (start, message)


def test_a_prefix_has_ten_tokens_at_most() -> None:
    assert reported("[a] " * 10 + "ValueError: bad") is not None
    assert reported("[a] " * 11 + "ValueError: bad") is None


def test_a_message_in_a_record_of_json_is_neither_code_nor_advice() -> None:
    assert reported('{"message": "if you see \\"x", "error": "CUDA out of memory"}') is not None
    assert reported('"if you see this: note CUDA out of memory') is None


@pytest.mark.parametrize("before", ["raise ", "  12 | raise ", "12: assert ", "# ", "- ", "logger.warning(x, ",
                                    "x = f\"", "print(", "if you see ", "It may also be ", "to avoid ",
                                    "Note "])  # fmt: skip
def test_code_and_advice_before_a_message(before: str) -> None:
    assert reported(f"{before}CUDA out of memory") is None


@pytest.mark.parametrize("before", ["raised ", "12 ", "a/note.py ", "--if-you ", "note: step 5: ", "maybe "])
def test_other_words_before_a_message(before: str) -> None:
    assert reported(f"{before}CUDA out of memory") is not None


def test_values_of_a_report_have_no_digits_in_their_names() -> None:
    report = reported("[rank0] ValueError: bad")
    assert report is not None and report.values == {"name": "ValueError"}
    names = {name for _, sample in SAMPLES if (report := reported(sample)) for name in report.values}
    assert "exit_code" in names and not any(name[-1].isdigit() for name in names)


def test_plain_kinds_are_exceptions_that_may_be_caught() -> None:
    assert [is_plain(name) for name in ("exception", "gpu_out_of_memory", "no kind", None)] == [
        True,
        False,
        False,
        False,
    ]


def test_messages_that_cancel_failures_are_of_their_kinds() -> None:
    assert undone_by() and all(kinds()[name].undone == text for text, name in undone_by().items())
    assert {text.encode() for text in undone_by()} <= {*needles()}
    assert needles()[-9] == TRACEBACK.encode() and len({*needles()}) == len(needles())
