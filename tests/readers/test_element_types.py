"""Bytes of an element, by the names that torch gives its types, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from perflog.readers.events.element_types import element_bytes, element_type


@pytest.mark.parametrize("name", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_types_that_numpy_has(name: str) -> None:
    assert element_bytes(name) == element_bytes(f"torch.{name}") == np.dtype(name).itemsize


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("c10::BFloat16", 2),
        ("c10::Half", 2),
        ("Float", 4),
        ("Int", 4),
        ("long int", 8),
        ("Long", 8),
        ("Double", 8),
        ("c10::Float8_e4m3fn", 1),
        ("c10::complex<float>", 8),
        ("ComplexDouble", 16),
        ("unsigned char", 1),
        ("", None),
        ("nothing", None),
    ],
)
def test_names_of_torch(name: str, size: int | None) -> None:
    assert element_bytes(name) == size


def test_the_plain_name() -> None:
    assert [element_type(name) for name in ("c10::BFloat16", "torch.float32", "Long")] == [
        "bfloat16",
        "float32",
        "long",
    ]
