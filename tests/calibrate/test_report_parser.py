import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from jissoku.inference.tool_values import COUNT, rank, read_values
from jissoku.measure.oracle import read_tools
from jissoku.model.calibration import FigurePattern

WRK = """Running 2s test @ http://127.0.0.1:1/
  3 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    10.28ms  689.48us  17.09ms   93.26%
    Req/Sec     3.21k   117.60     3.33k    70.00%
  Latency Distribution
     50%   10.08ms
     75%   10.16ms
     90%   10.51ms
     99%    1.44s
  19200 requests in 2.01s, 1.64MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 7
Requests/sec:   9552.23
Transfer/sec:    834.23KB
"""
AB = """Complete requests:      1000
Failed requests:        3
   (Connect: 0, Receive: 1, Length: 1, Exceptions: 1)
Requests per second:    123.45 [#/sec] (mean)
Time per request:       51.500 [ms] (mean)
Time per request:       0.805 [ms] (mean, across all concurrent requests)

Percentage of the requests served within a certain time (ms)
  50%     10
  99%     12
 100%     13 (longest request)
"""
H2LOAD = """finished in 2.00s, 9087.82 req/s, 834.23KB/s
requests: 18175 total, 18239 started, 18175 done, 18170 succeeded, 5 failed, 2 errored, 1 timeout
status codes: 18170 2xx, 0 3xx, 1 4xx, 2 5xx
                     min         max         mean         sd        +/- sd
time for request:    10.04ms     13.21ms     10.51ms       221us    91.20%
"""
HEY = """Summary:
  Total:\t2.0105 secs
  Slowest:\t0.0119 secs
  Average:\t0.0102 secs
  Requests/sec:\t9087.5

Latency distribution:
  50%% in 0.0101 secs
  99% in 0.0110 secs

Status code distribution:
  [200]\t900 responses
  [500]\t100 responses

Error distribution:
  [5]\tGet "http://x/": read: connection reset by peer
  [2]\tGet "http://x/": context deadline exceeded (Client.Timeout exceeded)
"""
HTTPERF = """Total: connections 2000 requests 2000 replies 1999 test-duration 2.000 s

Connection rate: 1000.0 conn/s (1.0 ms/conn, <=3 concurrent connections)
Connection time [ms]: min 1.1 avg 1.3 max 9.5 median 1.5 stddev 0.1

Request rate: 1000.0 req/s (1.0 ms/req)

Reply time [ms]: response 1.2 transfer 0.0
Reply status: 1xx=0 2xx=1999 3xx=0 4xx=0 5xx=0

Errors: total 1 client-timo 1 socket-timo 0 connrefused 0 connreset 0
"""


@pytest.mark.parametrize(
    ("tool", "report", "expected"),
    [
        (
            "wrk",
            WRK,
            {
                "requests": 19200,
                "rate_rps": 9552.23,
                "mean_ns": 10.28e6,
                "max_ns": 17.09e6,
                "p50_ns": 10.08e6,
                "p99_ns": 1.44e9,
                "errors": 10,
                "errors_io": 5,
                "errors_timeout": 4,
                "errors_status": 7,
            },
        ),
        (
            "ab",
            AB,
            {"requests": 1000, "mean_ns": 51.5e6, "p99_ns": 12e6, "max_ns": 13e6, "errors_io": 3},
        ),
        (
            "h2load",
            H2LOAD,
            {
                "requests": 18170,
                "errors": 5,
                "errors_io": 2,
                "errors_timeout": 1,
                "errors_status": 3,
                "max_ns": 13.21e6,
                "mean_ns": 10.51e6,
            },
        ),
        (
            "hey",
            HEY,
            {
                "requests": 900,
                "errors_status": 100,
                "errors": 7,
                "errors_io": 5,
                "errors_timeout": 2,
                "p50_ns": 10.1e6,
            },
        ),
        (
            "httperf",
            HTTPERF,
            {"requests": 1999, "errors_timeout": 1, "mean_ns": 1.3e6, "p50_ns": 1.5e6},
        ),
    ],
)
def test_reports_are_read(tool: str, report: str, expected: dict[str, float]) -> None:
    found = read_values(read_tools()[tool].read, report)
    assert {name: found.get(name) for name in expected} == pytest.approx(expected)


def test_a_line_that_is_only_printed_when_needed_means_none() -> None:
    quiet = "\n".join(line for line in WRK.splitlines() if "errors" not in line)
    assert read_values(read_tools()["wrk"].read, quiet)["errors"] == 0


def test_no_report_has_no_figures() -> None:
    assert read_values(read_tools()["wrk"].read, "") == {}


def test_paths_lead_through_json() -> None:
    text = 'noise\n{"parts": [{"n": 5}], "errors": {"a": 1, "b": 2}, "name": "x",'
    text += ' "list": [{"n": "p9", "v": 9}]}'
    wanted = {
        "n": FigurePattern(path="parts/0/n"),
        "errors": FigurePattern(path="errors"),
        "two": FigurePattern(path=("errors/a", "parts/0/n"), scale=2),
        "gone": FigurePattern(path="parts/3/n"),
        "text": FigurePattern(path="name"),
        "found": FigurePattern(path="list/n=p9/v"),
        "not found": FigurePattern(path="list/n=p8/v"),
        "highest": FigurePattern(path=("errors/a", "parts/0/n", "gone"), highest=True),
    }
    found = read_values(wanted, text)
    assert found == {"n": 5, "errors": 3, "two": 12, "found": 9, "highest": 5}


def test_histograms_are_asked_for_quantiles() -> None:
    histogram = HdrHistogram(1, 60_000_000_000, 3)
    for value in range(1, 1001):
        histogram.record_value(value * 1000)
    text = '{"h": "' + histogram.encode().decode() + '"}'
    wanted = {
        "p50": FigurePattern(path="h", quantile=0.5),
        "count": FigurePattern(path="h", quantile=COUNT),
    }
    found = read_values(wanted, text)
    assert found["count"] == 1000
    assert found["p50"] == pytest.approx(500_000, rel=0.002)


def test_a_quantile_of_few_samples_has_the_rank_of_its_share() -> None:
    histogram = HdrHistogram(1, 10**9, 3)
    for place in range(1, 1013):
        histogram.record_value(place)
    wanted = {"p95_ns": FigurePattern(path="histogram", quantile=0.95)}
    text = f'{{"histogram": "{histogram.encode().decode()}"}}'
    # 0.95 of 1012 is 961.4: the nearest rank is 961, which that share exceeds.
    assert read_values(wanted, text) == {"p95_ns": 962.0}
    assert [rank(1012, share) for share in (0.0, 0.5, 0.95, 1.0)] == [1, 506, 962, 1012]
