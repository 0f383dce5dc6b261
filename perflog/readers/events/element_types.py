"""Element types of tensors, by the names that torch gives them."""

from __future__ import annotations

_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8", "unsigned char", "signed char"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16", "short int"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32"), 4),
    **dict.fromkeys(("double", "long", "float64", "int64", "long int", "complexfloat", "complex<float>"), 8),
    **dict.fromkeys(("complexdouble", "complex<double>"), 16),
}


def element_type(dtype: str) -> str:
    """Return the plain name of a type, in lower case.

    Example:
        >>> element_type("c10::BFloat16"), element_type("torch.float32")
        ('bfloat16', 'float32')
    """
    return dtype.lower().rpartition("::")[2].removeprefix("torch.")


def element_bytes(dtype: str) -> int | None:
    """Return the bytes of an element of a type; None if the type is unknown."""
    return _BYTES.get(element_type(dtype))
