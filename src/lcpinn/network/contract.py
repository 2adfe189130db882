"""What a network and a way of conditioning are to the rest of the library.

Both are specs. A class that names its contract as its base is checked where it is written, and
inherits what has a body below; all that a new network must write is `init` and `apply`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from lcpinn.jet import Series
from lcpinn.spec import describe

Params = dict[str, Any]
Lambda = dict[str, Array]  # role -> normalised values (..., dim of the role)
Modulation = Sequence[tuple[Array, Array]]  # a scale and a shift for every hidden layer


@dataclass(frozen=True)
class ArrayLayout:
    """What a program without JAX must know to evaluate a network's arrays (docs/export.md)."""

    num_layers: int
    activation: str
    entries: Mapping[str, str]  # role of lambda -> how it enters
    tables: Mapping[str, np.ndarray]  # constants that go with the arrays, by their names
    exponential: tuple[str, ...] = ()  # roles whose generated scales are exponentials


@runtime_checkable
class Network(Protocol):
    """u(features, lambda): parameters are a pytree, values and derivatives a `Series`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def init(
        self,
        key: Array,
        num_features: int,
        num_outputs: int,
        dims: dict[str, int],
        dtype: DTypeLike,
    ) -> Params:
        """Parameters to start from; `dims` has the dimension of each role of lambda."""
        ...

    def apply(self, params: Params, features: Series, lam: Lambda) -> Series:
        """Outputs as a series; lambda's arrays broadcast against the features' batch axes."""
        ...

    @property
    def pointwise(self) -> bool:
        """Whether an output depends on its own point alone, so that the network can be traced."""
        return True

    @property
    def sees_holes(self) -> bool:
        """Whether its features are to tell of the holes of the domain (lcpinn.shape.holes)."""
        return False

    @property
    def sees_raw(self) -> bool:
        """Whether it sees coordinates as they are and logarithms of loss weights, not scaled."""
        return False

    @property
    def shapes_vary(self) -> bool:
        """Whether its arrays get their shapes in training, so that those of a file are right."""
        return False

    def resolution(self, params: Params) -> tuple[int, ...] | None:
        """Functions along each coordinate, of an expansion: what its error has at the least."""
        del params
        return None

    def doubtful(self, params: Params) -> np.ndarray | None:
        """Coefficients in [-1, 1], (n, p), where its error is to be looked at before elsewhere."""
        del params
        return None

    @property
    def num_hidden(self) -> int:
        """Hidden values of one point, for an estimate of the memory that a step takes."""
        return 1024

    def array_layout(self, dims: Mapping[str, int]) -> ArrayLayout | None:
        """How its arrays are to be read, or None where they do not say enough by themselves."""
        return None

    def words(self) -> str:
        """The architecture in a few words, for tables."""
        return describe(self)

    def shrunk(self) -> Network:
        """The same kind of network at a size that trains in a moment."""
        return self

    def drawn(self, frequency: float, slopes: float) -> Network:
        """The same network, its parameters drawn in another way where it knows of one."""
        del frequency, slopes
        return self


@runtime_checkable
class OperatorNetwork(Network, Protocol):
    """A network that maps an initial condition to a solution, both on equidistant grids."""

    @property
    def grid(self) -> int:
        """Points of the initial condition that it answers for."""
        ...

    @property
    def times(self) -> int:
        """Instants of the solution."""
        ...

    def operator(self, params: Params, initial: Float[Array, "*b n"]) -> Float[Array, "*b times n"]:
        """The solution at all instants from initial values."""
        ...


@runtime_checkable
class Conditioning(Protocol):
    """How a role of lambda enters an `MLP`: as further inputs, by modulating layers, or not."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def init(self, key: Array, dim: int, widths: Sequence[int], dtype: DTypeLike) -> Params:
        """Parameters of its own."""
        return {}

    def extra_inputs(self, dim: int) -> int:
        """How many inputs `dim` lambdas add to the first layer."""
        return 0

    @property
    def input_gain(self) -> float:
        """Factor of the initial matrix entries of those inputs."""
        return 1.0

    def join(self, features: Series, lam: Array) -> Series:
        """The first layer's inputs: the features, and those that it adds."""
        return features

    def modulate(self, params: Params, lam: Array, widths: Sequence[int]) -> Modulation | None:
        """A scale and a shift for each hidden layer, or None."""
        return None

    @property
    def entry(self) -> str | None:
        """What the reader of docs/export.md knows it as, or None where it knows it not."""
        return None

    def tables(self, dim: int) -> dict[str, np.ndarray]:
        """Constants that its arrays are read with."""
        return {}
