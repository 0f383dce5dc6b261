"""Settings alone are no success: a format is chosen for lines that give rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run

import perflog
from perflog.errors import InputError

UNKNOWN = "".join(f"at {i}: speed {i * 1.5:.2f} of {i * 7} with error {1 / (i + 1):.3f}\n" for i in range(40))
SETTINGS = {
    "training_sweep": "world_size 8\n",
    "hf_trainer": "***** Running training *****\n  Num Epochs = 3\n",
    "megatron": "using world size: 4, data-parallel-size: 4, tensor-model-parallel size: 1, "
    "pipeline-model-parallel size: 1 \n",
}


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SETTINGS)
def test_a_settings_line_beside_many_numbers_is_no_success(name: str, tmp_path: Path) -> None:
    path = log(tmp_path, SETTINGS[name] + UNKNOWN)
    with pytest.raises(InputError) as error:
        perflog.read(path, format=name)
    assert "no line fills a row of a table: " in error.value.reason
    assert f"only settings of {name} are read" in error.value.reason
    assert f"perflog formats suggest {path}" in error.value.help
    run("ingest", path, "--format", name, "--store", tmp_path / "store", code=3)
    assert not list((tmp_path / "store").glob("runs/*.parquet"))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_log_of_settings_is_read_with_a_warning(name: str, tmp_path: Path) -> None:
    read = perflog.read(log(tmp_path, SETTINGS[name]), format=name)
    assert read.runs["format"].tolist() == [name]
    assert [w.split(": ", 1)[1] for w in read.warnings] == ["no line gives a row of a table: only settings are read"]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_has_the_format_of_its_rows(name: str, tmp_path: Path) -> None:
    rows = "".join(f"iter {i}: loss 5.4983, time 337.52ms, mfu 0.96%\n" for i in range(2))
    read = perflog.read(log(tmp_path, SETTINGS[name] * 5 + rows))
    assert set(read.runs["format"].tolist()) >= {"nanogpt"}
    assert len(read.table("steps")) == 2


def test_one_line_that_is_known_in_part_proves_no_format(tmp_path: Path) -> None:
    """A line that begins like one of a benchmark's, in words that any program may print."""
    partly = "Concurrency: 1, throughput: 2029.6 infer/sec, latency 491 usec\n"
    for text in (partly + UNKNOWN, partly):
        assert perflog.read(log(tmp_path, text)).runs["format"].tolist() == ["meters"]


def test_a_log_of_an_error_alone_is_a_run_with_a_failure(tmp_path: Path) -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    text = f'Traceback (most recent call last):\n  File "/x/train.py", line 29, in <module>\n    main()\n{error}\n'
    read = perflog.read(log(tmp_path, text))
    assert read.runs["format"].isna().all()
    row = read.table("failures").iloc[0]
    assert (row["line"], row["last_line"], row["kind"], row["message"]) == (1, 4, "gpu_out_of_memory", error)
