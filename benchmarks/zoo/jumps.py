"""Coefficients that jump, with conditions at the interface."""

from __future__ import annotations

import jax.numpy as jnp

import lcpinn as lc

INDEX = 2.0  # of refraction, of the second medium


class Transmission(lc.Family):
    """U'' + n(x)² k² U = 0, n = 1 and then 2: a wave meets an interface, for every frequency k.

    Each side has outputs of its own, real and imaginary part: p + iq before the interface, r + iw
    behind it. Both are functions of the distance s from the interface, so that they share the face
    s = 0. A wave of amplitude 1 comes in at the far end of the first medium and leaves by both far
    ends without an echo; five to ten wavelengths in all.
    """

    domain = lc.Box(s=(0.0, 1.0))
    parameters = lc.Uniform(k=(10.0, 20.0))
    outputs = ("p", "q", "r", "w")

    @lc.interior
    def before(self, p, p_ss, q, q_ss, k):
        return p_ss + k**2 * p, q_ss + k**2 * q

    @lc.interior
    def behind(self, r, r_ss, w, w_ss, k):
        return r_ss + (INDEX * k) ** 2 * r, w_ss + (INDEX * k) ** 2 * w

    @lc.on(s=0.0)
    def interface(self, p, q, r, w, p_s, q_s, r_s, w_s):
        return p - r, q - w, p_s + r_s, q_s + w_s

    @lc.on(s=1.0)
    def incoming(self, p, q, p_s, q_s, k):
        # -U' + ik U = 2ik exp(-ik), with U' along s
        return -p_s - k * q - 2 * k * jnp.sin(k), -q_s + k * p - 2 * k * jnp.cos(k)

    @lc.on(s=1.0)
    def outgoing(self, r, w, r_s, w_s, k):
        return r_s + INDEX * k * w, w_s - INDEX * k * r

    def exact(self, s, k):
        reflected, passed = (1 - INDEX) / (1 + INDEX), 2 / (1 + INDEX)
        p, q = (1 + reflected) * jnp.cos(k * s), (reflected - 1) * jnp.sin(k * s)
        return p, q, passed * jnp.cos(INDEX * k * s), passed * jnp.sin(INDEX * k * s)
