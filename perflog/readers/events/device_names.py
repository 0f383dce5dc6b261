"""Names of devices and of their tracks: which track is a device, which of its tracks are streams, what runs there.

If the events of a trace have no kinds of work, only names show it: a process or plane such as `/device:TPU:0`, `GPU 0`
or `Ascend Hardware` is a device, its threads or lines are streams. Besides streams a device may have tracks over the
work of all streams, such as steps and modules: ranges, and no work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from perflog.lazy_patterns import lazy_pattern
from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.timestamps import number_in_name

_DEVICE = lazy_pattern(  # sources: XPlane names of XLA; labels of Kineto; torch_npu; rocprof v1
    r"/device:(?!cpu|custom)\w+:(\d+).*|(?:gpu|npu|tpu|xpu|hpu|mlu|mtia|gcu|dcu|musa|device)[ :#_]*(\d+)\b.*"
    r"|(?:ascend hardware|npu)()",
    re.IGNORECASE | re.DOTALL,
)
_STREAM = lazy_pattern(r"stream\D*(\d+)", re.IGNORECASE)
_OPERATIONS = lazy_pattern(r"(?:async )?xla ops|tensorcore|sparse ?core ops", re.IGNORECASE)
_COLLECTIVES = lazy_pattern(r"group \d+ communication", re.IGNORECASE)  # CANN; tracks `Plane 0` have their parts
_COPY = lazy_pattern(r"\[?\w*memcpy|copy-(?:start|done)|\w*copy(?:h2d|d2h|d2d)", re.IGNORECASE)
_SET = lazy_pattern(r"\[?\w*memset", re.IGNORECASE)
_WAIT = lazy_pattern(r"(?:event|notify|capture)[_ ]?(?:wait|record|reset)", re.IGNORECASE)


def device_number(name: str) -> int | None:
    """Return the number of the device that a name is of; -1 if it has none; None if it names no device."""
    match = _DEVICE.fullmatch(name.strip())
    return None if match is None else number_in_name(match[1] or match[2], -1)


def work_tracks(names: Iterable[str]) -> Callable[[str], bool]:
    """Return the test whether a track of a device has work, by its name. `names`: the names of all its tracks."""
    names = list(names)
    for pattern in (_STREAM, _OPERATIONS, _COLLECTIVES):
        if any(pattern.match(name.strip()) for name in names):
            return lambda name: pattern.match(name.strip()) is not None
    return lambda _: True


def stream_number(name: str) -> int:
    """Return the number of the stream that a track is; MISSING if its name has none."""
    match = _STREAM.match(name.strip())
    return number_in_name(match[1], MISSING) if match else MISSING


def work_kind(name: str) -> str:
    """Return the kind of work that a name on a stream means."""
    kinds = (("memcpy", _COPY), ("memset", _SET), ("sync", _WAIT))
    return next((kind for kind, pattern in kinds if pattern.match(name)), "kernel")
