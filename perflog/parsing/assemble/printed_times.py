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

_NAMES = ("timestamp|time|ts|date_?time|asctime|logged_?at|wall_?time", "date|created|created_?at")
"""Names of times of print, and those that may also be of something else, such as of the start or of the data."""

_COLUMNS = [lazy_pattern(names) for names in _NAMES]
_KEYS = [rf"""["'][_@]?(?i:{names})["'][ \t]*:""" for names in _NAMES]
_HAS_KEY = [lazy_pattern(key) for key in _KEYS]
_DATE = r"""[ \t]*["'](?P<time>[12][0-9]{3}[-/.]?[01](?:[0-9T :.+Z/-]|,[0-9]){6,32})["']"""
_FRACTION = r"[.,](?P<digits>[0-9]{1,9})"
_SINCE_1970 = (1.4e9, 2.2e9)  # seconds that may be a date, of 2014 to 2039: 3e9 may be 3 s in nanoseconds
_UNITS = (1, 10**3, 10**6, 10**9)  # of such a time, in a second
_LAST_DIGIT_OF_DOUBLES = 10**6  # in ns: trailing zeros are not printed, so no value shows it


class PrintedTimes:
    """Reads the times that the lines of a log print, batch after batch."""

    def __init__(self) -> None:
        self._digits: dict[str, int] = {}  # by line, of a fraction: a date of a whole second may lack it

    def of(self, line: Line, batch: Batch, records: Records) -> Stamps | None:
        """Return the times that records of a line print among their values; None if they print none."""
        for column, has_key, key in zip(_COLUMNS, _HAS_KEY, _KEYS, strict=True):
            for name, values in records.columns.items():
                if isinstance(values, np.ndarray) and name not in line.unit and column.fullmatch(plain_name(name)):
                    for per_second in _UNITS:
                        if (stamps := _since_1970(values, per_second)) is not None:
                            return stamps
            if len(records) and has_key.search(line.template.text):
                texts = pc.struct_field(pc.extract_regex(batch.bytes_at(records.positions), key + _DATE), "time")
                if (stamps := self._dates(line.template.text, texts.cast(pa.string()))) is not None:
                    return stamps
        return None

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


def _since_1970(values: Floats | Ints, per_second: int) -> Stamps | None:
    """Return the stamps of times since 1970: to a microsecond, which is what a double holds; None if none is one."""
    known = (values >= _SINCE_1970[0] * per_second) & (values < _SINCE_1970[1] * per_second)
    if not known.any():
        return None
    times = np.rint(np.where(known, values, 0) / per_second * 1e6).astype(np.int64) * 1000
    last_digit = _LAST_DIGIT_OF_DOUBLES if values.dtype == np.float64 else 10**9 // per_second
    clocks = np.where(known, CLOCKS.index(UTC), -1)
    return Stamps(np.where(known, times, -1), clocks, np.full(len(values), last_digit))
