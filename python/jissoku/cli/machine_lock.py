"""Preparation of a measuring command: the machine lock and the supervisor."""

import click

from jissoku.system.measurement_lock import measurement_lock
from jissoku.targets.supervisor import supervisor


def lock_machine() -> None:
    """Takes the measurement lock for the running verb; it is released when the verb has ended.

    From then on, all started processes are ended if this process is killed.

    Raises:
        InputError: Another process measures on this machine.
    """
    context = click.get_current_context()
    context.with_resource(measurement_lock(context.info_name or "jissoku"))
    supervisor()
