"""Keys: who can read them, what they are good for, and what addresses look like."""

import shutil
import ssl
import stat
from pathlib import Path

import pytest

from jissoku.errors import InputError
from jissoku.fleet import keys
from jissoku.fleet.keys import AGENT, CLIENT, ListenAddress, keys_of_host, make_keys, read_keys

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="there is no openssl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("keys") / "fleet"
    make_keys(found, "127.0.0.1")
    return found


@needs_openssl
def test_only_the_owner_can_read_them(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = {path.name for path in folder.iterdir()}
    assert names == {"ca.crt", "agent.crt", "agent.key", "client.crt", "client.key", "token"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert list(folder.parent.iterdir()) == [folder], "nothing is left of how they were made"


@needs_openssl
def test_certificates_are_of_one_role_each_and_valid_for_a_week(folder: Path) -> None:
    decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    for role in (AGENT, CLIENT):
        known = decode(str(folder / f"{role}.crt"))
        span = ssl.cert_time_to_seconds(known["notAfter"]) - ssl.cert_time_to_seconds(
            known["notBefore"]
        )
        assert span == 7 * 86_400
    assert ("IP Address", "127.0.0.1") in decode(str(folder / "agent.crt"))["subjectAltName"]
    keys = read_keys(folder, CLIENT)
    assert keys.context.verify_mode is ssl.CERT_REQUIRED
    assert keys.context.check_hostname
    assert read_keys(folder, AGENT).token == keys.token


@needs_openssl
def test_several_agents_have_the_same_keys(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "10.0.0.2", "load1.example", "fd00::3")
    decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    names = decode(str(tmp_path / "keys" / "agent.crt"))["subjectAltName"]
    assert set(names) == {
        ("IP Address", "10.0.0.2"),
        ("DNS", "load1.example"),
        ("IP Address", "FD00:0:0:0:0:0:0:3"),
    }
    for wrong in ("10.0.0.3:7470", "a b", "x, IP:10.0.0.9", "a\nb"):
        with pytest.raises(InputError, match="is no name or address of a host"):
            make_keys(tmp_path / "others", "10.0.0.2", wrong)
    assert not (tmp_path / "others").exists()


@needs_openssl
def test_each_host_has_a_certificate_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "keys"
    make_keys(place, "10.0.0.2", "fd00::3", is_shared=False)
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    read_keys(place, CLIENT)
    decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    for host, name in {
        "10.0.0.2": ("IP Address", "10.0.0.2"),
        "fd00::3": ("IP Address", "FD00:0:0:0:0:0:0:3"),
    }.items():
        copied = tmp_path / host
        copied.mkdir(mode=0o700)
        for file, text in keys_of_host(place, host).items():
            (copied / file).write_text(text)
            (copied / file).chmod(0o600)
        assert {path.name for path in copied.iterdir()} == {
            *("ca.crt", "token", "agent.crt", "agent.key")
        }
        read_keys(copied, AGENT)
        read_keys(place, AGENT, host)
        assert decode(str(copied / "agent.crt"))["subjectAltName"] == (name,)
        with pytest.raises(InputError, match=r"client\.crt: No such file"):
            read_keys(copied, CLIENT)
    with pytest.raises(InputError, match=r"agent\.crt: No such file"):
        read_keys(place, AGENT, "10.0.0.4")
    with pytest.raises(
        InputError, match=r"agent-10\.0\.0\.4\.crt: No such .* `jissoku fleet init`"
    ):
        keys_of_host(place, "10.0.0.4")


@needs_openssl
def test_keys_that_have_expired_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = keys._now_s()
    monkeypatch.setattr(keys, "_now_s", lambda: now_s + 6.9 * 86_400)
    read_keys(folder, CLIENT)
    monkeypatch.setattr(keys, "_now_s", lambda: now_s + 7.1 * 86_400)
    for role in (AGENT, CLIENT):
        with pytest.raises(InputError, match=r"were valid until .* GMT; make them with"):
            read_keys(folder, role)


@needs_openssl
def test_keys_that_others_can_read_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("token", "client.key", "."):
        copied = tmp_path / f"copy-{name.strip('.')}"
        shutil.copytree(folder, copied)
        (copied / name).chmod(0o750 if name == "." else 0o640)
        with pytest.raises(InputError, match="can be read by others: chmod go= "):
            read_keys(copied, CLIENT)


@needs_openssl
def test_what_is_no_key_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No such file.*--make-keys"):
        read_keys(tmp_path / "none", CLIENT)
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    (copied / "token").write_text("short")
    with pytest.raises(InputError, match="has no valid keys"):
        read_keys(copied, CLIENT)
    (copied / "token").write_text("abcd")
    with pytest.raises(InputError, match="is no token"):
        read_keys(copied, CLIENT)
    with pytest.raises(InputError, match="has files"):
        make_keys(copied, "127.0.0.1")


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        ":7470",
        "0.0.0.0:7470",
        "127.0.0.1:0",
        "127.0.0.1:70000",
        "127.0.0.1:x",
        "::1:7470",
        "[::]:7470",
        "[fe80::1%eth0]:7470",
        "[127.0.0.1]:7470",
        "[::1,IP:1.2.3.4]:7470",
        "a b:1",
        "a/b:1",
        "a,IP:1.2.3.4:1",
        "host\n:1",
        "http://host:1",
        "user@host:1",
        "-host:1",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--listen"):
        ListenAddress.parse(text, "--listen")


def test_an_address_is_read() -> None:
    found = ListenAddress.parse("server-1.example:7470", "--listen")
    assert (found.host, found.port) == ("server-1.example", 7470)
    assert found.text == "server-1.example:7470"


def test_an_address_of_version_6_is_in_brackets() -> None:
    found = ListenAddress.parse("[::1]:7470", "--listen")
    assert (found.host, found.port, found.text) == ("::1", 7470, "[::1]:7470")


@needs_openssl
def test_a_certificate_names_an_address_of_version_6(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", "::1")
    decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    names = decode(str(tmp_path / "keys" / "agent.crt"))["subjectAltName"]
    assert names == (("IP Address", "0:0:0:0:0:0:0:1"),)
