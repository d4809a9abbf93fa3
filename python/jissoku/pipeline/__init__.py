"""The whole story: from the names somebody typed to a folder of records.

Question -> targets prepared -> each looked at once -> run header -> pilot -> blocks of trials, each
recorded as it ends -> (a reader turns records into a summary and a report). Stages know nothing of
each other; what one leaves for the next is a value, and it is carried here.
"""

from jissoku.pipeline.bench import Contestant
from jissoku.pipeline.campaign import Pace, Question, compare
from jissoku.pipeline.listener import Listener
from jissoku.pipeline.sweep import Climbing, climb

__all__ = ["Climbing", "Contestant", "Listener", "Pace", "Question", "climb", "compare"]
