"""Potential flow past a cylinder of every radius."""

from __future__ import annotations

from jaxtyping import Array

from lcpinn.family import Evaluation, Family
from lcpinn.prior import Uniform
from lcpinn.shape import Ball, Box
from lcpinn.term import interior, on


class Cylinder(Family):
    """Δu = 0 around a cylinder of radius a, u_n = 0 on it: the potential of a flow along x.

    The exact potential of the flow in the whole plane, u = x (1 + a² / ρ²), is also the condition
    on the sides of the channel that is looked at.
    """

    cylinder = Ball(x=0.0, y=0.0, radius="a")
    channel = Box(x=(-2.0, 2.0), y=(-1.5, 1.5))
    domain = channel - cylinder
    parameters = Uniform(a=(0.3, 0.9))
    evaluation = Evaluation(points={"x": 81, "y": 61}, at={"a": (0.3, 0.6, 0.9)}, dense=61)

    @interior
    def equation(self, laplacian_u: Array) -> Array:
        return laplacian_u

    @on(cylinder)
    def impermeable(self, u_n: Array) -> Array:
        return u_n

    @on(channel)
    def far(self, u: Array, x: Array, y: Array, a: Array) -> Array:
        return u - self.exact(x, y, a)

    def exact(self, x: Array, y: Array, a: Array) -> Array:
        return x * (1 + a**2 / (x**2 + y**2))
