"""From verdicts to text, JSON and HTML. Nothing is computed or read here."""

from jissoku.report.explanation import (
    tuning_to_json as tuning_to_json,
    tuning_to_text as tuning_to_text,
)
from jissoku.report.format import to_json as to_json
from jissoku.report.live import (
    LiveState as LiveState,
    LiveTable as LiveTable,
    live_table as live_table,
)
from jissoku.report.page import to_html as to_html
from jissoku.report.sweep import (
    sweep_renderable as sweep_renderable,
    sweep_to_html as sweep_to_html,
    sweep_to_text as sweep_to_text,
)
from jissoku.report.terminal import (
    brief as brief,
    renderable as renderable,
    to_text as to_text,
    verdict as verdict,
)
