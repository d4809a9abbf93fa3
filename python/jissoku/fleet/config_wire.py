"""A message about a configuration of the client's own, which the host of the targets runs."""

import msgspec

from jissoku.model import ConfigFile
from jissoku.system.address import Address

# In a command: the folder that relative paths of nginx refer to, as it was built there.
PREFIX = "{prefix}"


class PrepareConfigured(msgspec.Struct, frozen=True, kw_only=True, tag="configured"):
    """A recipe's target that was prepared, with a configuration that was moved into the lab here.

    The other fields are those of `of_user`, in `targets/user_configuration.py`; `folder` is empty
    for that of the start.
    """

    prepared: int
    name: str
    command: tuple[str, ...]
    config: tuple[ConfigFile, ...]
    is_tls: bool
    upstreams: tuple[Address, ...]
    folder: str
