"""Makes the records of this repository small: `python -m tests.compress_records [FOLDER...]`.

Trials and profiles are compressed (`trials.jsonl.gz`), headers too if they are large. Of studies of
CPU time the histograms of latency are dropped, which no page and no table of theirs needs: they are
nine tenths of what is left. What is done is printed, by folder.
"""

import argparse
import gzip
import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent / "records"

# Repetitions of one question, whose tables are of CPU time.
WITHOUT_HISTOGRAMS = ("agreement", "injected", "repeatability", "self-test")

NAMES = ("trials.jsonl", "profiles.jsonl")

# A header is longer if the request body stands in it.
HEADER_BYTES_MAX = 100_000


def compress(root: Path) -> Counter[str]:
    """Compresses the records below a folder; bytes before and after, and dropped histograms."""
    found: Counter[str] = Counter()
    for path in sorted(root.rglob("*.json*")):
        is_large = path.name == "run.json" and path.stat().st_size > HEADER_BYTES_MAX
        if path.name not in NAMES and not is_large:
            continue
        data = path.read_bytes()
        found["bytes before"] += len(data)
        if path.name == "trials.jsonl" and root.name in WITHOUT_HISTOGRAMS:
            data = b"".join(_without_histograms(line, found) for line in data.splitlines())
        found["bytes after"] += replace_by_compressed(path, data)
    return found


def replace_by_compressed(path: Path, data: bytes) -> int:
    """Writes the compressed file of a record in place of the plain one; its size in bytes."""
    path.unlink()
    return path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))


def _without_histograms(line: bytes, found: Counter[str]) -> bytes:
    trial = json.loads(line)
    for measurement in trial["measurements"]:
        found["histograms dropped"] += bool(measurement.get("histogram"))
        measurement["histogram"] = ""
    return json.dumps(trial, separators=(",", ":")).encode() + b"\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="default: each one in records/")
    for folder in parser.parse_args().folders or sorted(ROOT.iterdir()):
        if folder.is_dir() and (done := compress(folder)):
            counts = ", ".join(f"{name} {count:,}" for name, count in done.items())
            sys.stdout.write(f"{folder.name}: {counts}\n")


if __name__ == "__main__":
    main()
