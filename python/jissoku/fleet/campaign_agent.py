"""An agent that runs whole comparisons on its own host, from the client's end."""

from collections.abc import Callable
from typing import ClassVar

from jissoku.fleet.campaign_wire import (
    AskCampaign,
    BeginCampaign,
    CampaignId,
    CampaignPart,
    CheckCampaign,
    EndCampaign,
)
from jissoku.fleet.campaigns import HOLD_S
from jissoku.fleet.link import ANSWER_S, Link
from jissoku.request import ComparisonRequest

# A reply waits for the end of a load, too.
PART_LIMIT_S = ANSWER_S + 3 * HOLD_S


class CampaignAgent(Link):
    """Begins campaigns, and pulls their records."""

    at_its_end: ClassVar[str] = "its comparison goes on"

    def begin(self, asked: BeginCampaign) -> CampaignPart:
        """InputError: it is refused, as one that was begun before and has not ended."""
        return self.ask(asked, CampaignPart)

    def check(self, request: ComparisonRequest) -> CampaignPart:
        """What measures there now. InputError: this comparison is refused."""
        return self.ask(CheckCampaign(request=request), CampaignPart)

    def part(self, asked: AskCampaign, give_up: Callable[[], bool] | None = None) -> CampaignPart:
        return self.ask(asked, CampaignPart, PART_LIMIT_S, give_up)

    def end(self, key: CampaignId) -> None:
        self.ask(EndCampaign(id=key), CampaignPart)
