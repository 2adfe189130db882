"""Periodic Burgers by Fourier modes in space and Radau IIA in time."""

import numpy as np
import scipy
from numpy.fft import irfft, rfft
from numpy.typing import ArrayLike, NDArray

from lcpinn.reference.cole_hopf import VISCOSITY


def burgers(
    t: ArrayLike,
    x: ArrayLike,
    nu: float = VISCOSITY,
    num_modes: int = 512,
    rtol: float = 1e-8,
) -> NDArray[np.float64]:
    """Burgers from -sin(πx) on a tensor grid; an independent check of the Cole-Hopf values.

    u_t + u u_x = ν u_xx on [-1, 1], periodic. Shapes: t (T,), x (X,) -> (T, X).
    At ν = 0.01/π the pole nearest to the shock is about 0.01 away, so that 512 modes are the
    fewest that give 1e-7.
    """
    grid = -1.0 + np.arange(2 * num_modes) / num_modes
    modes = _integrate(_analyse(-np.sin(np.pi * grid), num_modes), t, nu, rtol)
    # irfft counts the grid from its first point, x = -1.
    phase = np.exp(1j * np.pi * np.outer(np.arange(num_modes), np.asarray(x, float) + 1.0))
    return 2.0 * np.real(modes @ phase) - np.real(modes[:, :1])


def solve_burgers(
    initial: ArrayLike,
    times: ArrayLike,
    nu: float = VISCOSITY,
    num_points: int | None = None,
    rtol: float = 1e-8,
) -> NDArray[np.float64]:
    """Burgers from any periodic initial values, one or a batch of them.

    u_t + u u_x = ν u_xx on [-1, 1), grid x_j = -1 + 2j/n.

    Shapes: initial (..., n), times (T,) -> (T, ..., n), on the grid of ``initial``. The solve
    itself runs on ``num_points`` points, a multiple of n (the least one >= 1024 if not given).
    Members of a batch are solved one after the other, each with its own steps: in a joint solve
    the hardest member sets the steps of all, which measured no faster. Expect 0.1 - 1 s each;
    rtol = 1e-6 halves that and still gives 1e-6.
    """
    values = np.asarray(initial, float)
    count = values.shape[-1]
    size = num_points or count * max(1, -(-1024 // count))
    if size % count or size % 2:
        raise ValueError(f"num_points = {size} is not an even multiple of the {count} given")
    members = _analyse(values.reshape(-1, count), size // 2)
    modes = np.stack([_integrate(member, times, nu, rtol) for member in members], axis=1)
    result = irfft(modes, n=size, norm="forward")[..., :: size // count]
    return result.reshape(-1, *values.shape)


def _analyse(values: NDArray[np.float64], num_modes: int) -> NDArray[np.complex128]:
    """Fourier coefficients 0 .. num_modes - 1 of grid values; the unpaired last mode is dropped."""
    kept = min(num_modes, (values.shape[-1] + 1) // 2)
    modes = np.zeros((*values.shape[:-1], num_modes), complex)
    modes[..., :kept] = rfft(values, norm="forward")[..., :kept]
    return modes


def _integrate(
    initial: NDArray[np.complex128], times: ArrayLike, nu: float, rtol: float
) -> NDArray[np.complex128]:
    """Advance Fourier coefficients, shape (K,), to the given times, shape (T, K).

    Radau's Newton iteration gets only the diagonal, diffusive part of the Jacobian. It is the
    stiff part, and what is left out contracts at the step sizes that the accuracy asks for; a
    dense Jacobian costs a hundred times more. Products are formed on 3/2 as many points, which
    removes aliasing.
    """
    wanted, order = np.unique(np.asarray(times, float), return_inverse=True)
    if wanted.size == 0 or wanted[0] < 0.0:
        raise ValueError("times must be non-negative, and at least one")
    num_modes = len(initial)
    wavenumber = np.pi * np.arange(num_modes)
    damping = -nu * wavenumber**2

    def rate(_: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        modes = state.view(complex)
        values = irfft(modes, n=3 * num_modes, norm="forward")
        square = rfft(values * values, norm="forward")[:num_modes]
        return (damping * modes - 0.5j * wavenumber * square).view(float)

    if wanted[-1] == 0.0:  # nothing to integrate; solve_ivp does not accept an empty span
        return np.tile(initial, (order.size, 1))
    result = scipy.integrate.solve_ivp(
        rate,
        (0.0, wanted[-1]),
        initial.view(float),  # Radau is real: real and imaginary parts in turn
        "Radau",
        wanted,
        jac=scipy.sparse.diags_array(np.repeat(damping, 2), format="csc"),
        rtol=rtol,
        atol=rtol / 100,
    )
    if not result.success:
        raise RuntimeError(f"Radau stopped: {result.message}")
    return np.ascontiguousarray(result.y.T).view(complex)[order.ravel()]
