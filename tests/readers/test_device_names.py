"""Numbers of devices and streams in their names."""

from __future__ import annotations

import pytest

from perflog.readers.events.device_names import device_number, stream_number
from perflog.readers.events.event_columns import MISSING


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 5000])
def test_a_number_in_a_name_that_64_bits_do_not_hold_is_none(digits: str) -> None:
    assert device_number(f"/device:TPU:{digits}") == device_number(f"GPU {digits}") == -1
    assert stream_number(f"Stream #{digits}") == MISSING
    assert (device_number("GPU 1234567890"), stream_number("stream 123456789012345678")) == (
        1234567890,
        123456789012345678,
    )
