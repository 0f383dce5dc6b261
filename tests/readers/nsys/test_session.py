"""The session of an export: its clock, its devices, the ranks of its processes; what is not stated stays unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from support.nsys_files import Row, write_tables

from perflog.parsing.input.source import open_source
from perflog.readers.databases.sqlite import Database
from perflog.readers.nsys.session import Session, process_of

Opened = Callable[..., Session]
START = "TARGET_INFO_SESSION_START_TIME"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A function that opens an export with these tables."""
    with ExitStack() as stack:

        def session(**tables: list[Row]) -> Session:
            path = str(write_tables(tmp_path / "a.sqlite", tables or {"other": [{"a": 1}]}))
            return Session(stack.enter_context(closing(Database(path, stack.enter_context(open_source(path))))))

        yield session


def test_a_process_is_in_the_second_24_bits() -> None:
    assert process_of((7 << 24) + 9) == 7
    assert process_of((3 << 48) + (0xFFFFFF << 24) + 1) == 0xFFFFFF
    assert process_of(0xFFFFFF) == 0


@pytest.mark.parametrize(
    ("tables", "epoch", "clock"),
    [
        ({START: [{"utcEpochNs": 1_767_718_840_395_831_670}]}, 1_767_718_840_395_831_670, "epoch"),
        ({START: [{"utcEpochNs": None}, {"utcEpochNs": 5}]}, 5, "epoch"),
        ({START: [{"utcEpochNs": 5}, {"utcEpochNs": 5}]}, None, "trace"),  # which one it is, nothing says
        ({START: [{"utcEpochNs": 5.5}]}, None, "trace"),
        ({START: [{"utcTime": "2026"}]}, None, "trace"),
        ({}, None, "trace"),
        ({"META_DATA_EXPORT": [{"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "true"}],
          START: [{"utcEpochNs": 7}]}, 0, "epoch"),
        ({"META_DATA_EXPORT": [{"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "false"}],
          START: [{"utcEpochNs": 7}]}, 7, "epoch"),
    ],
)  # fmt: skip
def test_the_zero_of_the_clock(opened: Opened, tables: dict[str, list[Row]], epoch: int | None, clock: str) -> None:
    session = opened(**tables)
    assert session.epoch() == epoch
    assert session.config("a", "0")["clock"] == clock


def test_the_device_of_a_run_is_each_name_once_and_its_program_the_command(opened: Opened) -> None:
    gpus = [{"id": 0, "name": "A100"}, {"id": 1, "name": "T4"}, {"id": 2, "name": "A100"}, {"id": 3, "name": None}]
    session = opened(
        TARGET_INFO_GPU=gpus, META_DATA_CAPTURE=[{"name": "PROCESS_0:COMMAND", "value": "./train"}]
    )  # fmt: skip
    assert session.run_columns() == {"device": "A100, T4", "program": "./train"}
    assert session.gpu_names == {0: "A100", 1: "T4", 2: "A100"}


@pytest.mark.parametrize("tables", [{}, {"META_DATA_CAPTURE": [{"name": b"PROCESS_0:COMMAND", "value": "x"}]},
                                    {"META_DATA_CAPTURE": [{"name": "PROCESS_0:COMMAND"}]}])  # fmt: skip
def test_what_a_run_does_not_state_is_null(opened: Opened, tables: dict[str, list[Row]]) -> None:
    session = opened(**tables)
    assert session.run_columns() == {"device": None, "program": None}
    assert (session.gpus, session.gpu_names, session.gpu_of_device, session.mpi_ranks()) == ([], {}, {}, {})
    assert session.gpu_of_metrics(0) is None


def test_a_command_may_be_a_number(opened: Opened) -> None:
    session = opened(META_DATA_CAPTURE=[{"name": "PROCESS_0:COMMAND", "value": 0}])
    assert session.run_columns()["program"] == "0"


def test_what_differs_between_exports_of_a_program_is_with_the_file(opened: Opened) -> None:
    export = [
        {"name": "EXPORT_PRODUCT_NAME", "value": "Nsight"}, {"name": "EXPORT_PRODUCT_VERSION", "value": "2026"},
        {"name": "EXPORT_SCHEMA_VERSION", "value": "3.24"}, {"name": "EXPORT_TIME", "value": "noon"},
    ]  # fmt: skip
    session = opened(META_DATA_EXPORT=export, TARGET_INFO_GPU=[{"id": 0, "smCount": 108, "uuid": "x"}])
    assert session.config("a.sqlite", "0a") == {
        "EXPORT_PRODUCT_NAME": "Nsight", "EXPORT_PRODUCT_VERSION": "2026", "EXPORT_SCHEMA_VERSION": "3.24",
        "clock": "trace", "devices": [{"id": 0, "smCount": 108}],
        "files": [{"name": "a.sqlite", "sha256": "0a", "EXPORT_TIME": "noon"}],
    }  # fmt: skip


def test_the_gpu_of_a_device_of_a_process(opened: Opened) -> None:
    devices = [
        {"pid": 7, "cudaId": 0, "gpuId": 3}, {"pid": 8, "cudaId": 0, "gpuId": 0}, {"pid": 8, "cudaId": 1, "gpuId": None}
    ]  # fmt: skip
    assert opened(TARGET_INFO_CUDA_DEVICE=devices).gpu_of_device == {(7, 0): 3, (8, 0): 0}


def test_devices_without_a_column_have_no_gpu(opened: Opened) -> None:
    assert opened(TARGET_INFO_CUDA_DEVICE=[{"pid": 7, "cudaId": 0}]).gpu_of_device == {}


def test_a_gpu_without_a_number_has_no_name(opened: Opened) -> None:
    assert opened(TARGET_INFO_GPU=[{"name": "A100"}]).gpu_names == {}


def test_the_gpu_of_metrics_is_in_the_last_byte_of_their_type(opened: Opened) -> None:
    gpus = [{"id": 4, "pwGpuId": 0}, {"id": 5, "pwGpuId": 255}, {"id": 6, "pwGpuId": 2}, {"id": 7, "pwGpuId": 2}]
    session = opened(TARGET_INFO_GPU=gpus)
    assert [session.gpu_of_metrics(0xAB00 + low) for low in (0, 255, 2, 3)] == [4, 5, None, None]


def test_a_process_with_several_ranks_has_none(opened: Opened) -> None:
    ranks = [
        {"globalTid": (7 << 24) + 1, "rank": 3}, {"globalTid": (7 << 24) + 2, "rank": 3},
        {"globalTid": (8 << 24) + 1, "rank": 0}, {"globalTid": (8 << 24) + 2, "rank": 1},
        {"globalTid": (9 << 24) + 1, "rank": 0},
    ]  # fmt: skip
    assert opened(MPI_RANKS=ranks).mpi_ranks() == {7: 3, 9: 0}


def test_ranks_without_a_column_are_none(opened: Opened) -> None:
    assert opened(MPI_RANKS=[{"rank": 3}]).mpi_ranks() == {}
