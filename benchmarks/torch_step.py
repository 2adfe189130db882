"""The paper's Adam step on helmholtz-1d as one writes it in PyTorch: the yardstick of `step`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn


class Network(nn.Module):
    """act(gamma(k) * (W h + b) + beta(k)) in every hidden layer; one generator for all of them."""

    def __init__(self, widths: Sequence[int], hidden: int):
        super().__init__()
        self.widths = list(widths)
        self.generator = nn.Sequential(
            nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 2 * sum(widths))
        )
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise([1, *widths]))
        self.last = nn.Linear(widths[-1], 1)

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        parts = self.generator((2 * (k - 1) / 9 - 1)[:, None, None])
        parts = parts.split([w for width in self.widths for w in (width, width)], dim=-1)
        h = 2 * x - 1
        for layer, gamma, beta in zip(self.layers, parts[::2], parts[1::2], strict=True):
            h = torch.tanh((1 + gamma) * layer(h) + beta)
        return self.last(h)


class TorchStep:
    """Parameters, Adam with its schedule, and fresh points at every step."""

    def __init__(self, sampling, network, adam, boundary_weight: float, threads: int):
        torch.set_num_threads(threads)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.sampling, self.clip, self.boundary_weight = sampling, adam.clip, boundary_weight
        self.network = Network(network.widths, network.parameters.hidden).to(self.device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), adam.rate)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            self.optimiser, adam.steps, adam.final_rate
        )
        half = sampling.face // 2
        ends = torch.cat([torch.zeros(half), torch.ones(half)]).to(self.device)
        self.faces = ends[None, :, None].expand(sampling.num_lambda, -1, 1)

    def load(self, params) -> None:
        """Take over the parameters of our network (whose matrices act from the right)."""
        film = params["conditioning"]["parameters"]
        first, _, second = self.network.generator
        pairs = [(first, film["w0"], film["b0"]), (second, film["w1"], film["b1"])]
        modules = [*self.network.layers, self.network.last]
        pairs += [(m, p["w"], p["b"]) for m, p in zip(modules, params["layers"], strict=True)]
        with torch.no_grad():
            for module, w, b in pairs:
                module.weight.copy_(torch.tensor(np.asarray(w).T))
                module.bias.copy_(torch.tensor(np.asarray(b)))

    def loss(self, x: Tensor, faces: Tensor, k: Tensor) -> Tensor:
        x = x.requires_grad_()
        u = self.network(x, k)
        (u_x,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        wave = k[:, None, None]
        exact = torch.sin(math.pi * x) * torch.cos(wave * x)
        cross = torch.cos(math.pi * x) * torch.sin(wave * x)
        forcing = -(math.pi**2) * exact - 2 * math.pi * wave * cross
        residual = u_xx + wave**2 * u - forcing
        boundary = self.network(faces, k)
        return (residual**2).mean() + self.boundary_weight * (boundary**2).mean()

    def loss_at(self, x, faces, k) -> tuple[float, float]:
        """Loss and gradient norm on a given batch, in full float32."""
        torch.set_float32_matmul_precision("highest")
        self.optimiser.zero_grad(set_to_none=True)
        value = self.loss(*(torch.tensor(np.asarray(a), device=self.device) for a in (x, faces, k)))
        value.backward()
        squares = [p.grad.pow(2).sum() for p in self.network.parameters() if p.grad is not None]
        return value.item(), sum(s.item() for s in squares) ** 0.5

    def run(self, steps: int) -> None:
        torch.set_float32_matmul_precision("high")  # TF32 on a GPU, as in JAX; a CPU ignores it
        num, points = self.sampling.num_lambda, self.sampling.interior
        for _ in range(steps):
            k = 1 + 9 * torch.rand(num, device=self.device)
            x = torch.rand(num, points, 1, device=self.device)
            self.optimiser.zero_grad(set_to_none=True)
            self.loss(x, self.faces, k).backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
            self.optimiser.step()
            self.schedule.step()
        self.wait()

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def products(shapes: Sequence[tuple[int, int, int]], steps: int, threads: int) -> None:
    """The matrix products of `steps` steps; shapes are (rows, inputs, outputs), see `step`."""
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("high")
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    with torch.no_grad():
        for rows, inputs, outputs in shapes:
            h = torch.randn(rows, inputs, device=device)
            w = torch.randn(inputs, outputs, device=device)
            for _ in range(steps):
                y = h @ w
                x = y @ w.T if inputs > 1 else h
                w = w + 1e-9 * (x.T @ y)
    if cuda:
        torch.cuda.synchronize()
