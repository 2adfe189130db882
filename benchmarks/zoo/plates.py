"""Plates and beams: equations of fourth order."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc

LOSS = 0.05  # of the shaken beam: what a period of bending takes from its energy, over 2π


class Plate(lc.Family):
    """a u_xxxx + 2h u_xxyy + b u_yyyy + k u = load: orthotropic, simply supported, on springs.

    Bending stiffnesses a along x and b along y, torsional stiffness h, foundation k: six inputs.
    """

    domain = lc.Box(x=(0.0, 1.0), y=(0.0, 1.0))
    parameters = lc.Uniform(a=(0.5, 2.0), b=(0.5, 2.0), h=(0.5, 2.0), k=(0.0, 200.0))
    evaluation = lc.Evaluation({"x": 41, "y": 41})

    @lc.interior
    def equation(self, u, u_xxxx, u_xxyy, u_yyyy, x, y, a, b, h, k):
        load = 400 * jnp.sin(jnp.pi * x) * jnp.sin(jnp.pi * y)
        load += 1600 * jnp.sin(2 * jnp.pi * x) * jnp.sin(jnp.pi * y)
        return a * u_xxxx + 2 * h * u_xxyy + b * u_yyyy + k * u - load

    @lc.on(x=(0.0, 1.0))
    def supported_along_y(self, u, u_xx):
        return u, u_xx

    @lc.on(y=(0.0, 1.0))
    def supported_along_x(self, u, u_yy):
        return u, u_yy

    def exact(self, x, y, a, b, h, k):
        def mode(n, load):
            stiffness = jnp.pi**4 * (a * n**4 + 2 * h * n**2 + b) + k
            return load / stiffness * jnp.sin(n * jnp.pi * x) * jnp.sin(jnp.pi * y)

        return mode(1, 400) + mode(2, 1600)


class ShakenBeam(lc.Family):
    """(1 + iη) u'''' - w² u = load, u = p + iq, for every frequency w about the first resonance.

    A simply supported beam with hysteretic damping η: p in phase with the load, q behind it. At
    w = π² the answer is twenty times that of a beam without inertia, and p changes its sign.
    """

    domain = lc.Box(x=(0.0, 1.0))
    parameters = lc.Uniform(w=(5.0, 15.0))
    outputs = ("p", "q")

    @lc.interior
    def equation(self, p, p_xxxx, q, q_xxxx, x, w):
        load = 100 * (jnp.sin(jnp.pi * x) + jnp.sin(2 * jnp.pi * x))
        return p_xxxx - LOSS * q_xxxx - w**2 * p - load, q_xxxx + LOSS * p_xxxx - w**2 * q

    @lc.on(x=(0.0, 1.0))
    def supported(self, p, p_xx, q, q_xx):
        return p, p_xx, q, q_xx

    def exact(self, x, w):
        def mode(n):
            stiff = (n * jnp.pi) ** 4
            net, loss = stiff - w**2, LOSS * stiff
            shape = 100 * jnp.sin(n * jnp.pi * x) / (net**2 + loss**2)
            return net * shape, -loss * shape

        (p1, q1), (p2, q2) = mode(1), mode(2)
        return p1 + p2, q1 + q2
