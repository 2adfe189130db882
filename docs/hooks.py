"""What mkdocs.yml cannot say: pages that need not be there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

OPTIONAL = {"Reproduction of the paper": "reproduction.md"}


def on_config(config: Any) -> Any:
    """Enter into the navigation, at its end, the optional pages that there are."""
    here = Path(config["docs_dir"])
    config["nav"] += [{title: file} for title, file in OPTIONAL.items() if (here / file).exists()]
    return config
