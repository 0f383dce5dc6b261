"""Times that lines print among their values: `{"_timestamp": 1772016000.5, "step": 3}`, a column `wall_time`.

They are the times at which the lines were printed, as the stamps before other lines are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perflog.arrays import Floats, Ints
from perflog.formats.model import Line
from perflog.formats.vocabulary import plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.assemble.column_values import clocks_of, timestamps
from perflog.parsing.match.records import Batch, Records, Stamps
from perflog.tables.arrow import numbers_of, valid_mask
from perflog.tables.schema import CLOCKS, UTC

_NAMES = frozenset("timestamp time ts date datetime asctime created createdat loggedat walltime".split())
_IN_OBJECT = (
    r"""["'][_@]?(?i:timestamp|time|ts|date|datetime|asctime|created|created_?at|logged_?at|wall_?time)["'][ \t]*:"""
    r"""[ \t]*["'](?P<time>[12][0-9]{3}[-/.]?[01](?:[0-9T :.+Z/-]|,[0-9]){6,32})["']"""
)
_OBJECT_WITH_TIME = lazy_pattern(_IN_OBJECT.encode())
_FRACTION = r"[.,](?P<digits>[0-9]{1,9})"
_SINCE_1970 = (1e9, 4e9)  # seconds that may be a date: from 2001 on
_UNITS = (1, 10**3, 10**6, 10**9)  # of such a time, in a second
_LAST_DIGIT_OF_DOUBLES = 10**6  # in ns: trailing zeros are not printed, so no value shows it


class PrintedTimes:
    """Reads the times that the lines of a log print, batch after batch."""

    def __init__(self) -> None:
        self._digits: dict[str, int] = {}  # by line, of a fraction: a date of a whole second may lack it

    def of(self, line: Line, batch: Batch, records: Records) -> Stamps | None:
        """Return the times that records of a line print among their values; None if the first one prints none."""
        if not len(records):
            return None
        for name, values in records.columns.items():
            if isinstance(values, np.ndarray) and plain_name(name).replace("_", "") in _NAMES:
                for per_second in _UNITS:
                    if _SINCE_1970[0] * per_second <= values[0] < _SINCE_1970[1] * per_second:
                        return _since_1970(values, per_second)
        if _OBJECT_WITH_TIME.search(batch.bytes_at(records.positions[:1])[0].as_py()) is None:
            return None
        texts = pc.struct_field(pc.extract_regex(batch.bytes_at(records.positions), _IN_OBJECT), "time")
        return self._dates(line.template.text, texts.cast(pa.string()))

    def _dates(self, line: str, texts: pa.Array) -> Stamps | None:
        times = timestamps(texts)
        known = valid_mask(times)
        if not known.any():
            return None
        fractions = pc.struct_field(pc.extract_regex(texts, _FRACTION), "digits")
        digits = np.maximum.accumulate(numbers_of(pc.fill_null(pc.binary_length(fractions), 0)))
        digits = np.maximum(digits, self._digits.get(line, 0))
        self._digits[line] = int(digits[-1])
        clocks = np.where(known, numbers_of(clocks_of(texts).indices), -1)
        return Stamps(np.where(known, numbers_of(times), -1), clocks, 10 ** (9 - digits))


def _since_1970(values: Floats | Ints, per_second: int) -> Stamps:
    """Return the stamps of times since 1970: to a microsecond, which is what a double holds of them."""
    known = (values >= _SINCE_1970[0] * per_second) & (values < _SINCE_1970[1] * per_second)
    times = np.rint(np.where(known, values, 0) / per_second * 1e6).astype(np.int64) * 1000
    last_digit = _LAST_DIGIT_OF_DOUBLES if values.dtype == np.float64 else 10**9 // per_second
    clocks = np.where(known, CLOCKS.index(UTC), -1)
    return Stamps(np.where(known, times, -1), clocks, np.full(len(values), last_digit))
