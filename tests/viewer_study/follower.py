"""Follows a job's page without a browser: for measurements of what an open page costs.

    python -m tests.viewer_study.follower LINK PATH

LINK is that of `jissoku ui`, PATH a page with a stream. It prints a line when the stream is open,
and reads until the stream ends. As a browser on another machine, it takes no CPU time that a
measurement here would feel: it is in the idle class, off the server's cores.
"""

import html
import http.client
import os
import re
import sys
from contextlib import closing
from urllib.parse import urlsplit

from jissoku.system.background import background_cores, enter_idle_class

LIMIT_S = 120.0
FOLLOWING = "following"


def main() -> int:
    """Follows the page of the command line; the exit code is 1 if that has no stream."""
    link, path = sys.argv[1:]
    os.sched_setaffinity(0, background_cores())
    enter_idle_class()
    parts = urlsplit(link)
    where = parts.hostname or "", parts.port or 0
    with closing(http.client.HTTPConnection(*where, timeout=LIMIT_S)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}")
        entered = connection.getresponse()
        entered.read()
        cookie = {"Cookie": entered.headers.get("Set-Cookie", "").partition(";")[0]}
        connection.request("GET", path, headers=cookie)
        page = connection.getresponse().read().decode()
        stream = re.search(r'data-stream="([^"]+)"', page)
        if stream is None:
            return 1
        connection.request("GET", html.unescape(stream[1]), headers=cookie)
        events = connection.getresponse()
        events.readline()
        sys.stdout.write(f"{FOLLOWING}\n")
        sys.stdout.flush()
        while events.readline():
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
