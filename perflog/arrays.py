"""Names for the types of arrays: numbers of rows and nanoseconds, measured values, and which rows are chosen."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
