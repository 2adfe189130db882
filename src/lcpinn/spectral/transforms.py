"""Between Chebyshev coefficients and values at an axis's nodes, by cosine transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from lcpinn.spectral.basis import Axis


def _dct(*arguments: Any, **options: Any) -> Any:
    return scipy.fft.dct(*arguments, **options)  # loaded when it is used


def transforms(axis: Axis) -> bool:
    """Whether an axis has Chebyshev polynomials, and none but those."""
    return type(axis) is Axis and not axis.periodic and axis.integrated is None


def series_of(values: np.ndarray) -> np.ndarray:
    """The Chebyshev coefficients of values (n, ...) at the nodes of an axis."""
    series = _dct(values, axis=0) / len(values)
    series[0] /= 2
    series[1::2] *= -1  # nodes go from -1 to 1
    return series


def values_of(series: np.ndarray, count: int) -> np.ndarray:
    """Values (count, ...) at so many nodes of functions with Chebyshev coefficients (n, ...)."""
    padded = np.zeros((count, *series.shape[1:]))
    padded[: len(series)] = series
    padded[1::2] *= -0.5
    padded[2::2] *= 0.5
    return _dct(padded, 3, axis=0)
