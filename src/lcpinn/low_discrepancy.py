"""Sobol and Halton sequences, in NumPy: SciPy has them, but takes longer to import than they save.

A Sobol point is x_i = G(i) C + s over the binary digits, with Gray's code G, a matrix C for every
dimension and a shift s. C comes from a primitive polynomial and its first direction numbers (Joe
and Kuo 2008), and is multiplied by a random lower triangular matrix (Matousek 1998).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

Points = Float[np.ndarray, "num dim"]

BITS = 30
# Of every dimension the primitive polynomial, its coefficients read as binary digits, and the first
# direction numbers: Joe and Kuo's, of which there are 21 201. More dimensions are SciPy's affair.
_DIRECTIONS = (
    (1, (1,)), (3, (1,)), (7, (1, 3)), (11, (1, 3, 1)), (13, (1, 1, 1)), (19, (1, 1, 3, 3)),
    (25, (1, 3, 5, 13)), (37, (1, 1, 5, 5, 17)), (41, (1, 1, 5, 5, 5)), (47, (1, 1, 7, 11, 19)),
    (55, (1, 1, 5, 1, 1)), (59, (1, 1, 1, 3, 11)), (61, (1, 3, 5, 5, 31)),
    (67, (1, 3, 3, 9, 7, 49)), (91, (1, 1, 1, 15, 21, 21)), (97, (1, 3, 1, 13, 27, 49)),
    (103, (1, 1, 1, 15, 7, 5)), (109, (1, 3, 1, 15, 13, 25)), (115, (1, 1, 5, 5, 19, 61)),
    (131, (1, 3, 7, 11, 23, 15, 103)), (137, (1, 3, 7, 13, 13, 15, 69)),
    (143, (1, 1, 3, 13, 7, 35, 63)), (145, (1, 3, 5, 9, 1, 25, 53)),
    (157, (1, 3, 1, 13, 9, 35, 107)),
)  # fmt: skip
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


def sobol(num: int, dim: int, seed: int) -> Points:
    """The first points of a scrambled Sobol sequence, those of scipy.stats.qmc to the bit."""
    if dim > len(_DIRECTIONS):
        from scipy.stats import qmc

        # A sequence drawn to the next power of two begins with the same points and does not warn.
        return qmc.Sobol(dim, scramble=True, rng=seed).random(1 << (num - 1).bit_length())[:num]
    (rng,), digits = np.random.default_rng(seed).spawn(1), np.arange(BITS, dtype=np.uint32)
    shift = rng.integers(0, 2, (dim, BITS), np.uint32) @ (1 << digits)
    mixing = np.tril(rng.integers(0, 2, (dim, BITS, BITS), np.uint32), -1) + np.eye(BITS, dtype=int)
    numbers = np.array([_direction_numbers(*row) for row in _DIRECTIONS[:dim]])
    # Digits from the first after the point on, a column for each number.
    columns = (numbers[:, None, :] >> digits[::-1, None]) & 1
    mixed = (mixing @ columns) % 2
    scrambled = np.sum(mixed << digits[::-1, None].astype(int), axis=1)
    index = np.arange(num)
    gray, points = index ^ (index >> 1), np.broadcast_to(shift, (num, dim)).astype(np.int64)
    for digit in range(max(num - 1, 0).bit_length()):
        points ^= ((gray >> digit) & 1)[:, None] * scrambled[:, digit]
    return points * 2.0**-BITS


def _direction_numbers(polynomial: int, first: tuple[int, ...]) -> list[int]:
    """All of a dimension, as fractions of 2^BITS, by the polynomial's recurrence."""
    if polynomial == 1:
        return [1 << (BITS - 1 - j) for j in range(BITS)]
    degree, numbers = polynomial.bit_length() - 1, list(first)
    for j in range(degree, BITS):
        new = numbers[j - degree] ^ (numbers[j - degree] << degree)
        for k in range(1, degree):
            if polynomial >> (degree - k) & 1:
                new ^= numbers[j - k] << k
        numbers.append(new)
    return [number << (BITS - 1 - j) for j, number in enumerate(numbers)]


def halton(index: int, dim: int) -> Float[np.ndarray, " dim"]:
    """A point of Halton's sequence: the digits of its index mirrored at the point, by primes."""
    if dim > len(_PRIMES):
        from scipy.stats import qmc

        points = qmc.Halton(dim, scramble=False)
        points.fast_forward(index)
        return points.random(1)[0]
    return np.array([_mirrored(index, base) for base in _PRIMES[:dim]])


def _mirrored(index: int, base: int) -> float:
    value, scale = 0.0, 1.0
    while index:
        index, digit = divmod(index, base)
        scale /= base
        value += digit * scale
    return value
