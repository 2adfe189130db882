"""The names on a page: what each argument of a user's method stands for, or why it is none."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lcpinn.domain import Region
from lcpinn.errors import LcpinnError
from lcpinn.jet import parse_derivative
from lcpinn.prior import Coefficients
from lcpinn.shape import Box
from lcpinn.term import Argument

TERM = ("output", "derivative", "coordinate", "parameter")  # what a term may ask for


@dataclass(frozen=True)
class Names:
    """Coordinates, coefficients and outputs of a page called `title`; `methods` are its terms."""

    title: str
    domain: Box | Region
    parameters: Coefficients
    outputs: tuple[str, ...]
    methods: tuple[Callable, ...]

    def bind(self, owner: str, method: Callable, allowed: Sequence[str]) -> tuple[Argument, ...]:
        """The arguments of a method, as far as they are of kinds that it may ask for."""
        parameters = inspect.signature(method).parameters.values()
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
            raise LcpinnError(f"{owner!r} of {self.title}: write its arguments out by name")
        return tuple(self._argument(owner, p.name, allowed) for p in parameters)

    def _argument(self, owner: str, name: str, allowed: Sequence[str]) -> Argument:
        domain, parameters = self.domain, self.parameters
        if name == "point":
            return Argument(name, "point")
        if name in domain.names:
            return Argument(name, "coordinate", domain.names.index(name))
        if name in parameters.names:
            return Argument(name, "parameter", parameters.names.index(name))
        if "output" in allowed:
            parsed = parse_derivative(name, self.outputs, domain.names)
            if parsed is not None and (name in self.outputs or "derivative" in allowed):
                return Argument(name, "output", self.outputs.index(parsed[0]), parsed[1])
        if "normal" in allowed and (along := self._normal(name)) is not None:
            return along
        raise LcpinnError(self._unknown(owner, name, allowed))

    def _normal(self, name: str) -> Argument | None:
        """`u_n`, the derivative along the outward normal, and its components `n_x`."""
        first, _, last = name.rpartition("_")
        if first == "n" and last in self.domain.names:
            return Argument(name, "normal", self.domain.names.index(last))
        if last == "n" and first in self.outputs:
            slopes = tuple(tuple(int(i == j) for j in range(self.domain.dim))
                           for i in range(self.domain.dim))  # fmt: skip
            return Argument(name, "normal derivative", self.outputs.index(first), slopes)
        return None

    # -- Why it is none ----------------------------------------------------------------------------

    def _unknown(self, owner: str, name: str, allowed: Sequence[str]) -> str:
        coordinates = ", ".join(self.domain.names)
        if "derivative" in allowed and self._normal(name) is not None:
            return (
                f"{owner!r} of {self.title} asks for {name!r}, but there is a normal on the "
                "boundary only: mark it with @lc.on(...)"
            )
        output = next((o for o in self.outputs if name.startswith(o + "_")), None)
        if output is not None and "derivative" in allowed:
            axis = name.removeprefix(output + "_")
            return (
                f"{owner!r} of {self.title} asks for {name!r}, but {axis!r} names no coordinates; "
                f"the domain has {coordinates}"
            )
        names = [*self.domain.names, *self.parameters.names]
        if "output" in allowed:
            names += self.outputs
        if "derivative" in allowed:
            names += [f"{o}_{c}" for o in self.outputs for c in self.domain.names]
            names += [f"{o}_{c}{c}" for o in self.outputs for c in self.domain.names]
        if "normal" in allowed:
            names += [f"n_{c}" for c in self.domain.names] + [f"{o}_n" for o in self.outputs]
        hint, known = self._hint(name, names, allowed), ", ".join(names)
        return f"{owner!r} of {self.title} has no such name as {name!r}{hint} (there are {known})"

    def _hint(self, name: str, names: Sequence[str], allowed: Sequence[str]) -> str:
        if "derivative" in allowed and (outputs := self._undeclared(name)):
            return f"; is it a solution? They are named by outputs = {outputs!r}"
        close = difflib.get_close_matches(name, names, 1)
        return f"; did you mean {close[0]!r}?" if close else ""

    def _undeclared(self, name: str) -> tuple[str, ...]:
        """What `outputs` would be where a name is one of them, or a derivative of one: where some
        term asks for a derivative of it. Those that no term asks for are left out."""
        output = name.removeprefix("laplacian_").split("_")[0]
        asked = {a for method in self.methods for a in inspect.signature(method).parameters}
        if not self._is_among(output, asked - {output}):
            return ()
        return (*(one for one in self.outputs if self._is_among(one, asked)), output)

    def _is_among(self, output: str, arguments: Iterable[str]) -> bool:
        """Whether arguments have an output, or a derivative of it."""
        coordinates = self.domain.names
        return any(parse_derivative(a, (output,), coordinates) is not None for a in arguments)
