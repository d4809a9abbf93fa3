"""Takes out of a text what identifies this machine and its user, because records are published."""

import os
import pwd
import re
import socket
import sys
import tempfile
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

# Names that many machines share, and that occur in ordinary messages.
PUBLIC_NAMES = frozenset({"root", "nobody", "www-data", "daemon", "user", "localhost", "debian"})


def redact(text: str) -> str:
    """Replaces absolute paths, and the user's and the machine's name.

    Known folders are replaced by a name: `~` (home), PREFIX (this Python), PACKAGE (jissoku),
    HERE (the lab's working directory), TMP. Of every other one only the last component is kept.
    """
    for pattern, substitute in _known():
        text = pattern.sub(substitute, text)
    return _absolute().sub(lambda found: "…/" + found[0].rpartition("/")[2], text)


@cache
def _known() -> tuple[tuple[re.Pattern[str], str], ...]:
    folders = {
        Path(sys.prefix): "PREFIX",
        PACKAGE: "PACKAGE",
        Path.cwd(): "HERE",
        Path(tempfile.gettempdir()): "TMP",
        Path("~").expanduser(): "~",
    }
    named = [
        (re.compile(rf"(?<![\w.~-]){re.escape(str(path))}(?![\w.-])"), name)
        for path, name in sorted(folders.items(), key=lambda item: -len(str(item[0])))
        if len(path.parts) > 1
    ]
    for name, word in (("HOST", socket.gethostname()), ("USER", _user())):
        if word and word not in PUBLIC_NAMES:
            named.append((re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])"), name))
    return tuple(named)


@cache
def _absolute() -> re.Pattern[str]:
    """Paths that begin with a folder of this machine's root; `/files/1k.bin` of a URL does not."""
    tops = "|".join(sorted(re.escape(name) for name in os.listdir("/")))  # noqa: PTH208
    return re.compile(rf"(?<![\w.~…/-])/(?:{tops})(?:/[^\s/:;,'\"()<>\]]+)+")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""
