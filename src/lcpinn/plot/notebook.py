"""What a notebook shows of a solution: a line, the verdict where there is one, and the picture."""

from __future__ import annotations

import base64
import html
import io

from lcpinn.plot.overview import figure
from lcpinn.solution import Solution


def markup(solution: Solution) -> str:
    data = io.BytesIO()
    figure(solution).savefig(data, format="png", dpi=110)
    picture = base64.b64encode(data.getvalue()).decode()
    verdict = getattr(solution, "verdict", None)
    lines = [repr(solution), *(() if verdict is None else (str(verdict),))]
    text = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    return f'{text}<img alt="the solution" src="data:image/png;base64,{picture}">'
