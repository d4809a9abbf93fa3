"""Counts the requests of each second in a store that all workers share, and draws the last minute.

Run `jissoku serve --config requests_chart.toml` in this folder; the drawing is at /requests.svg.
"""

import time

from jissoku import chart, store

SECONDS = 60

requests = store.open("requests")


def app(environ, start_response):
    now = int(time.time())
    requests.increment(str(now))
    if environ["PATH_INFO"] == "/requests.svg":
        # The second that has not ended is not drawn.
        counts = [int(requests.get(str(at)) or 0) for at in range(now - SECONDS, now)]
        times = ["1 min ago", "30 s ago", "now"]
        drawing = chart.line(counts, title="Requests per second", labels=times)
        kind, body = "image/svg+xml", drawing.encode()
    else:
        kind, body = "text/plain", b"Hello, World!\n"
    headers = [("Content-Type", kind), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]
