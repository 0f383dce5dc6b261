"""Names for the types of arrays: integers such as nanoseconds, measured values, chosen rows, bytes, codes."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
"""Places in a list of strings, or of rows that are fewer than 2**31."""
