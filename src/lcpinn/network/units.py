"""Outputs in the units of a page: a network's own are of size one.

A page in SI units has temperatures of 400 K, pressures of 1e5 Pa and deflections of a millimetre.
As drawn, a network's outputs are of size one, and a step changes its parameters by a share of what
they are: units decades away from one are not reached by steps, nor is one level that many outputs
vary about. So what is trained is dimensionless,

    u = level + exp(Σ c_k T_k(λ)) network(x, λ),

and where solutions are of other sizes at other λ, rows are relative to them: equilibration divides
by how strongly a row responds to the parameters, which the factor is part of.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lcpinn.jet import Series
from lcpinn.network.film import chebyshev, chebyshev_indices
from lcpinn.spec import spec


@spec
class Units:
    """A level and a size for each output; the logarithm of the size is a polynomial in lambda.

    `log_sizes` has a row for each polynomial, the constant first and then the products of Chebyshev
    polynomials of total degree up to `degree`, with a number for each output.
    """

    levels: tuple[float, ...]
    log_sizes: tuple[tuple[float, ...], ...]
    degree: int = 0

    def sizes(self, lam: Array | None, dtype: np.dtype) -> Array:
        """Of the outputs (..., outputs) at normalised coefficients (..., p)."""
        rows = jnp.asarray(self.log_sizes, dtype)
        if not self.degree or lam is None:
            return jnp.exp(rows[0])
        return jnp.exp(rows[0] + chebyshev(lam, self.degree) @ rows[1:])

    def applied(self, outputs: Series, lam: Array | None) -> Series:
        """Dimensionless outputs in the page's units."""
        dtype = outputs.coefficients.dtype
        return outputs * self.sizes(lam, dtype) + jnp.asarray(self.levels, dtype)

    def tables(self, dim: int) -> dict[str, np.ndarray]:
        """As arrays that a program without JAX reads (docs/export.md)."""
        orders = np.array([(0,) * dim, *chebyshev_indices(dim, self.degree)], int)
        return {
            "units.levels": np.array(self.levels),
            "units.log_sizes": np.array(self.log_sizes),
            "units.orders": orders.reshape(len(self.log_sizes), dim),
        }
