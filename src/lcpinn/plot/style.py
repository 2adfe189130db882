"""One look for every picture: that of a paper's figure, at the size at which it is printed."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import (
    FuncFormatter,
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from lcpinn.errors import LcpinnError
from lcpinn.files import write_atomically

P = ParamSpec("P")
T = TypeVar("T")
Scale = tuple[Normalize, str]  # of colours, and the name of the map

# Okabe and Ito's palette: distinguishable with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
# A printer without colours tells curves apart by these.
LINES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P")

SINGLE, DOUBLE = 3.4, 7.0  # inches: one column of a page, and both
TITLE = 0.2  # inches that the titles of a row take
FORMATS = (".png", ".svg", ".pdf")
DECADES = 6  # of a logarithmic colour scale: exact zeros would otherwise take up all of it

STYLE: dict[Any, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.labelspacing": 0.25,
    "axes.linewidth": 0.6,
    "axes.grid": False,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "image.interpolation": "nearest",
    "figure.constrained_layout.use": True,
    "savefig.dpi": 300,
    "svg.hashsalt": "lcpinn",  # the same picture is the same file
}


def in_style(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with the shared style, and leave Matplotlib's own settings as they were."""
    return matplotlib.rc_context(STYLE)(function)


@in_style
def save(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, SVG or PDF, after its suffix."""
    if path.suffix not in FORMATS:
        raise LcpinnError(f"{path}: write {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    # Without a date, the same picture is the same file.
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[path.suffix]
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:], metadata=undated)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LcpinnError(f"could not write {path}: {error.strerror}") from None
    write_atomically(path, buffer.getvalue())
    return path


# -- Words ---------------------------------------------------------------------------------------

_GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda"),
        *("mu", "nu", "xi", "pi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega"),
        *("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega"),
    )
)


def symbol(name: str) -> str:
    """A name as a formula has it: `alpha` is a letter, what follows an underscore an index."""
    head, _, index = name.partition("_")
    if head in _GREEK:
        head = f"\\{head}"
    elif len(head) > 1:
        head = rf"\mathrm{{{head}}}"
    index = index.replace("_", r"\_")
    return f"${head or ' '}_{{\\mathrm{{{index}}}}}$" if index else f"${head}$"


def number(value: float) -> str:
    """Four digits at most; powers of ten as such."""
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    if not exponent:
        return mantissa.replace("-", "−")
    factor = "" if mantissa == "1" else rf"{mantissa} \times "
    return f"${factor}10^{{{int(exponent)}}}$"


def size_of(error: float) -> str:
    """An error with two digits; a small one as a power of ten."""
    if 0.01 <= error < 1000:
        return f"{error:.2g}"
    mantissa, _, exponent = f"{error:.1e}".partition("e")
    return rf"${mantissa} \times 10^{{{int(exponent)}}}$"


def setting(names: Sequence[str], values: Sequence[float] | np.ndarray) -> str:
    """`k = 3.25, α = 0.5`."""
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{symbol(name)} = {number(float(value))}" for name, value in pairs)


# -- Axes ----------------------------------------------------------------------------------------


def line(which: int) -> dict[str, Any]:
    """Colour and dashes of one curve among several."""
    return {"color": COLOURS[which % len(COLOURS)], "linestyle": LINES[which % len(LINES)]}


def logarithmic(axis: Axes, decades: float | None = None) -> None:
    """A logarithmic ordinate with few labels, and no more than so many decades below the top."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if decades is not None:
        low = max(low, high * 10.0**-decades)
    if high / low < 2:  # values that agree
        low, high = low / 1.5, high * 1.5
    axis.set_ylim(low, high)
    axis.yaxis.set_major_locator(LogLocator(numticks=7))
    # Within a decade there may be a single power of ten, or none: multiples are labelled too.
    few = math.log10(high / low) < 1.5
    minor = LogFormatterSciNotation(minor_thresholds=(1.5, 0.5)) if few else NullFormatter()
    axis.yaxis.set_minor_formatter(minor)
    axis.grid(True)


def plain_ticks(*axes: XAxis | YAxis) -> None:
    """Few labels, with no more digits than they need."""
    for axis in axes:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def above(axis: Axes, columns: int = 3) -> None:
    """The legend over the axes, where no curve is in its way; long labels in fewer columns."""
    texts = axis.get_legend_handles_labels()[1]
    longest = max(len(re.sub(r"\\[a-zA-Z]+|[${}]", "", text)) for text in texts)
    axis.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=max(1, min(columns, 48 // (longest + 6))),
        columnspacing=1.0,
        handletextpad=0.5,
        borderaxespad=0.2,
    )


def narrow_or_logarithmic(axis: Axes, along: str, values: np.ndarray) -> None:
    """One axis logarithmic; where its values share a decade, linear with the power at its end."""
    if values.max() > 10 * values.min() > 0:
        axis.set(**{f"{along}scale": "log"})
        few, ticks = values.max() < 100 * values.min(), getattr(axis, f"{along}axis")
        ticks.set_major_locator(LogLocator(subs=(1, 3) if few else (1,), numticks=6))
        ticks.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(2, 2)))
        ticks.set_minor_formatter(NullFormatter())
        return
    axis.ticklabel_format(axis=along, style="sci", scilimits=(-2, 3), useMathText=True)  # pyright: ignore[reportArgumentType]
    axis.locator_params(axis=along, nbins=4)  # pyright: ignore[reportArgumentType]


def image(
    axis: Axes, values: np.ndarray, extent: Sequence[float], norm: Normalize, cmap: str
) -> AxesImage:
    """Values (across, up) at points from edge to edge as a picture."""
    a, b, c, d = extent
    across, up = (
        (e - s) / (2 * (n - 1)) for s, e, n in ((a, b, len(values)), (c, d, len(values.T)))
    )
    shown = axis.imshow(
        values.T, origin="lower", extent=(a - across, b + across, c - up, d + up), aspect="auto",
        norm=norm, cmap=cmap,
    )  # fmt: skip
    axis.set(xlim=(a, b), ylim=(c, d))  # of the outermost values half a pixel is in sight
    plain_ticks(axis.xaxis, axis.yaxis)
    return shown


def colour_bar(shown: ScalarMappable, axes: Axes | Sequence[Axes], label: str = "") -> Colorbar:
    """A bar beside the axes, with few labels."""
    first = axes if isinstance(axes, Axes) else axes[0]
    bar = first.figure.colorbar(shown, ax=axes, pad=0.02, aspect=16)
    if label.count(" "):
        bar.set_label(label)
    else:
        bar.ax.set_title(label)  # a bare symbol beside the bar reads as that of the next axes
    if isinstance(shown.norm, LogNorm):
        low, high = bar.ax.get_ylim()
        few = high < 30 * low
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=5))
        bar.ax.yaxis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(2, 2)))
        bar.ax.minorticks_off()
    else:
        plain_ticks(bar.ax.yaxis)
    bar.outline.set_linewidth(0.6)  # pyright: ignore[reportCallIssue]
    return bar


def _finite(fields: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Fields without what is not a number, as outside of a shape; never empty."""
    inside = tuple(f[np.isfinite(f)] for f in fields)
    return tuple(f for f in inside if f.size) or (np.zeros(1),)


def signed(*fields: np.ndarray) -> bool:
    """Whether one of these fields has both signs to speak of."""
    fields = _finite(fields)
    return any(min(-float(f.min()), float(f.max())) > 0.1 * float(np.abs(f).max()) for f in fields)


def linear_scale(*fields: np.ndarray, both: bool | None = None) -> Scale:
    """A scale for all of these fields: symmetric about zero where they have both signs."""
    fields = _finite(fields)
    low, high = min(float(f.min()) for f in fields), max(float(f.max()) for f in fields)
    size = max(abs(low), abs(high)) or 1.0
    if signed(*fields) if both is None else both:
        return Normalize(-size, size), "RdBu_r"
    return Normalize(low, high if high > low else low + size), "viridis"


def log_scale(*fields: np.ndarray) -> Scale:
    """A logarithmic scale for all of these fields, of a few decades at most."""
    fields = _finite(fields)
    high = max(max(float(f.max()) for f in fields), 1e-17)
    positive = [float(f[f > 0].min()) for f in fields if np.any(f > 0)]
    low = max(min(positive, default=high), high * 10.0**-DECADES)
    return LogNorm(min(low, high / 10), high, clip=True), "magma"


def tall(num_rows: int, each: float, more: float = 0.0) -> float:
    """The height of a figure, in inches, that still fits on a page."""
    return min(num_rows * each + more, 9.5)
