import hashlib
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.model import Capability
from jissoku.targets import contract


def test_the_files_are_the_same_on_every_machine(tmp_path: Path) -> None:
    contract.make_files(tmp_path / "new")
    made = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert {name: len(body) for name, body in made.items()} == {
        "1k.bin": 1024, "10k.bin": 10240, "64k.bin": 65536, "100k.bin": 102400, "1m.bin": 1048576,
    }  # fmt: skip
    digest = hashlib.sha256(b"".join(made[name] for name in sorted(made))).hexdigest()
    assert digest == "0de3a15f008762449a9cc1d0ff6d3735ebe3fda28fdde5fa5654f87776eb2ea0"


def test_a_spoilt_file_is_made_again_and_a_right_one_is_left(tmp_path: Path) -> None:
    contract.make_files(tmp_path)
    kept = (tmp_path / "10k.bin").stat().st_ino
    (tmp_path / "1k.bin").write_bytes(b"spoilt")
    contract.make_files(tmp_path)
    assert (tmp_path / "1k.bin").read_bytes() == contract.content("1k.bin")
    assert (tmp_path / "10k.bin").stat().st_ino == kept


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(InputError, match="files to serve cannot be made: Not a directory"):
        contract.make_files(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/", Capability.HELLO),
        ("/42", Capability.ANSWER_42),
        ("/delay?ms=10", Capability.DELAY),
        ("/files/1k.bin", Capability.FILES),
        ("/delay", None),
        ("/delay?ms=x", None),
        ("/files/other", None),
        ("/elsewhere", None),
    ],
)
def test_a_path_belongs_to_a_part_of_the_contract(path: str, part: Capability | None) -> None:
    assert contract.capability(path) == part
    assert (contract.expected_response(path) is None) == (part is None)


def test_the_contract_knows_every_byte() -> None:
    hello = contract.expected_response("/")
    assert hello is not None
    assert (hello.status, hello.content_type, hello.body) == (200, "text/plain", b"Hello, World!")
    file = contract.expected_response("/files/10k.bin")
    assert file is not None
    assert file.body == contract.content("10k.bin")
