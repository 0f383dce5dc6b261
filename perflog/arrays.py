"""Names for the types of arrays: integers such as nanoseconds, measured values, chosen rows, bytes, codes."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
"""Places in a list of strings, or of rows that are fewer than 2**31."""
Keys = npt.NDArray[np.signedinteger[Any]]
"""Integers of any width, such as codes of strings."""
