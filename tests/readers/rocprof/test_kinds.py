"""Kinds of events by the names of arrays and categories."""

from __future__ import annotations

import pytest

from perflog.readers.rocprof.kinds import kind_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hip_api", "runtime"), ("HIP_RUNTIME_API_EXT", "runtime"), ("hsa_core_api", "runtime"),
        ("marker_api", "range"), ("MARKER_CORE_RANGE_API", "range"),
        ("kernel_dispatch", "kernel"), ("counter_collection", "kernel"), ("memory_copy", "memcpy"),
        ("rccl_api", "library"), ("ROCDECODE_API_EXT", "library"), ("MARKER_CONTROL_API", "range"),
        ("kernel_dispatch_x", None), ("memory_copy_x", None), ("memory_allocation", None), ("api", None), ("", None),
        ("rccl_apis", None),
    ],
)  # fmt: skip
def test_kinds_of_names(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind
