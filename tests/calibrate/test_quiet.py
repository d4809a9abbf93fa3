from jissoku.calibrate.quiet import BUSY, INTERRUPTS, STAT, Watch, busy_s

TEXT = """cpu  10 0 10 100 5 0 0 0 0 0
cpu0 1000 100 200 9999 777 10 20 70 300 0
cpu1 500 0 0 9999 0 0 0 0 0 0
intr 1 2 3
"""


def test_idling_and_waiting_are_not_busy() -> None:
    assert busy_s(TEXT, (0,), BUSY) == 13.7
    assert busy_s(TEXT, (0, 1), BUSY + INTERRUPTS) == 19
    assert busy_s(TEXT, (7,), BUSY) == 0


def test_a_share_is_a_share() -> None:
    cores = tuple(
        int(line.split()[0].removeprefix("cpu"))
        for line in STAT.read_text(encoding="ascii").splitlines()
        if line.startswith("cpu") and not line.startswith("cpu ")
    )
    assert Watch(cores).foreign() >= 0
