"""What the phases and categories of Chrome traces mean."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.readers.chrome.kinds import CONTEXT, COUNTER, EVENT, PAIR, UNREAD, role_and_kind
from perflog.readers.events.event_columns import KIND_CODE


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("kernel", "kernel"), ("Kernel", "kernel"), ("mtia_ccp_events", "kernel"), ("cpu_op", "cpu"),
        ("Operator", "cpu"), ("python_function", "python"), ("Trace", "span"), ("overhead", "overhead"),
        ("gpu_memcpy", "memcpy"), ("Memcpy", "memcpy"), ("mlu_memset", "memset"), ("xpu_sync", "sync"),
        ("cuda_event", "sync"), ("cuda_sync", "sync"), ("gcu_user_annotation", "device_range"),
        ("user_annotation", "range"), ("hip_runtime", "runtime"), ("Runtime", "runtime"), ("cuda_driver", "runtime"),
        ("hpu_op", "runtime"),
    ],
)  # fmt: skip
def test_kinds_of_categories(category: str, kind: str) -> None:
    assert role_and_kind("X", category) == (EVENT, KIND_CODE[kind])
    assert role_and_kind("B", category) == (PAIR, KIND_CODE[kind])


@pytest.mark.parametrize("category", [None, "", 7, "fwdbwd", "sync", "kernels", "runtimes"])
def test_other_categories_have_no_kind(category: Any) -> None:
    assert role_and_kind("X", category) == (EVENT, -1)


@pytest.mark.parametrize("phase", ["i", "I", "R", "n"])
def test_an_instant_is_a_mark_whatever_its_category(phase: str) -> None:
    assert role_and_kind(phase, "kernel") == role_and_kind(phase, None) == (EVENT, KIND_CODE["mark"])


def test_roles_of_phases() -> None:
    assert {role_and_kind(phase, None)[0] for phase in "BEbeSF"} == {PAIR}
    assert {role_and_kind(phase, None)[0] for phase in "MstfTpc"} == {CONTEXT}
    assert role_and_kind("C", None) == (COUNTER, -1)


@pytest.mark.parametrize("phase", [None, "", "x", "XX", "Q", 88])
def test_an_unknown_phase_is_unread(phase: Any) -> None:
    assert role_and_kind(phase, None)[0] == UNREAD


def test_what_perflog_computed_is_context() -> None:
    assert role_and_kind("X", "Perflog_kernel") == (CONTEXT, -1)
    assert role_and_kind("X", "my_perflog_kernel")[0] == EVENT
