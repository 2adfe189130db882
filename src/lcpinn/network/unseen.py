"""Lambda that the network does not see."""

from __future__ import annotations

from lcpinn.network.contract import Conditioning
from lcpinn.spec import spec


@spec
class Unseen(Conditioning):
    """The network ignores this role: one answer for every lambda, for comparisons."""

    @property
    def entry(self) -> str:
        return "unseen"
