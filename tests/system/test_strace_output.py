"""Parsing the output of strace."""

from jissoku.system import strace as trace
from jissoku.system.strace import Call

LINES = """\
6221  epoll_wait(23<anon_inode:[eventpoll]>,  <unfinished ...>
16220 close(18<anon_inode:[eventpoll]> <unfinished ...>
6221  <... epoll_wait resumed>[{events=EPOLLIN, data={u32=1, u64=1}}], 1024, -1) = 1
16220 <... close resumed>) = 0
6221  accept4(6<socket:[21]>, NULL, NULL, SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)
6221  accept4(6<socket:[21]>, NULL, NULL, SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)
16220 epoll_wait(24<anon_inode:[eventpoll]>, [{events=EPOLLIN, data={u32=1}}], 1024, 500) = 1
16220 accept4(6<socket:[21]>, NULL, NULL, SOCK_NONBLOCK) = 9<socket:[22]>
16220 accept4(6<socket:[21]>, NULL, NULL, SOCK_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)
16220 openat(AT_FDCWD</srv>, "/srv/a (1) = b.html", O_RDONLY) = 10</srv/a (1) = b.html>
16220 openat(AT_FDCWD</srv>, "/srv/gone", O_RDONLY) = -1 ENOENT (No such file or directory)
16220 statx(10</srv/a>, "", AT_EMPTY_PATH, STATX_ALL, {stx_mask=STATX_ALL}) = 0
16220 newfstatat(AT_FDCWD</srv>, "/srv/a", {st_mode=S_IFREG|0644}, 0) = 0
16220 write(11</var/log/a.log>, "line \\"x\\"\\n", 9) = 9
16220 write(1<pipe:[7]>, "x", 1) = 1
16220 connect(12<socket:[23]>, {sa_family=AF_INET}, 16) = -1 EINPROGRESS (Operation now in progress)
16220 epoll_wait(24<anon_inode:[eventpoll]>, [], 1024, 0) = 0
16220 --- SIGCHLD {si_signo=SIGCHLD} ---
16220 +++ exited with 0 +++
""".splitlines()  # noqa: E501 - as strace writes it


def seen() -> list[Call]:
    return list(trace.calls(LINES))


def test_calls_that_were_interrupted_are_put_together() -> None:
    first = seen()[0]
    assert (first.thread, first.name, first.result) == (6221, "epoll_wait", "1")
    assert first.text.startswith("23<anon_inode:[eventpoll]>")


def test_calls_are_counted_with_those_that_found_nothing() -> None:
    everything, again = trace.counts(seen())
    assert everything["accept4"] == 4
    assert everything["openat"] == 2
    assert again == {"accept4": 3}


def test_a_wake_up_is_vain_only_if_its_first_attempt_is() -> None:
    assert trace.spurious_wakeups(seen()) == 1


def test_who_waited_for_a_database_was_not_woken_for_a_connection() -> None:
    lines = """\
7 poll([{fd=9<socket:[24]>, events=POLLIN}], 1, 5000) = 1 ([{fd=9, revents=POLLIN}])
7 recvfrom(9<socket:[24]>, "42", 8192, 0, NULL, NULL) = 2
7 accept4(6<socket:[21]>, NULL, NULL, SOCK_CLOEXEC) = -1 EAGAIN (Resource temporarily unavailable)
""".splitlines()
    assert trace.spurious_wakeups(trace.calls(lines)) == 0
    assert trace.spurious_wakeups(trace.calls([lines[0], lines[2]])) == 1


def test_paths_are_those_that_were_there() -> None:
    assert trace.paths(seen(), trace.OPENS) == {"/srv/a (1) = b.html": 1}
    assert trace.paths(seen(), trace.PATH_QUERIES) == {"/srv/a": 1}


def test_writes_are_those_to_files() -> None:
    assert trace.written(seen()) == {"/var/log/a.log": 1}


def test_waits_and_hops_are_counted() -> None:
    assert trace.empty_waits(seen()) == 1
    assert trace.connects(seen()).streams == {"": 1}


# As strace 6.1 writes it: questions to a database, a lookup of a name, an accepted connection and
# two transactions.
ASKING = """\
7 socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 5<socket:[50]>
7 connect(5<socket:[50]>, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("10.0.0.2")}, 16) = 0
7 sendto(5<socket:[50]>, "x", 1, 0, NULL, 0) = 1
7 socket(AF_INET6, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 6<socket:[51]>
7 connect(6<socket:[51]>, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0
7 socket(AF_INET6, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_IP) = 6<socket:[52]>
7 connect(6<socket:[52]>, {sa_family=AF_INET6, sin6_port=htons(80), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = -1 EINPROGRESS (Operation now in progress)
7 connect(8<socket:[53]>, {sa_family=AF_UNIX, sun_path="/run/db.sock"}, 110) = 0
7 connect(8<socket:[54]>, {sa_family=AF_UNIX, sun_path="/run/gone.sock"}, 110) = -1 ENOENT (No such file or directory)
7 recvfrom(9<socket:[60]>, "GET", 3, 0, NULL, NULL) = 3
7 sendto(8<socket:[53]>, "a", 1, 0, NULL, 0) = 1
7 recvfrom(8<socket:[53]>, 0x7ff, 8, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
7 recvfrom(8<socket:[53]>, "aa", 8, 0, NULL, NULL) = 2
7 recvfrom(8<socket:[53]>, "aa", 8, 0, NULL, NULL) = 2
7 write(8<socket:[53]>, "b", 1) = 1
7 read(8<socket:[53]>, "b", 1) = 1
7 sendto(9<socket:[60]>, "200", 3, 0, NULL, 0) = 3
7 recvfrom(9<socket:[60]>, "GET", 3, 0, NULL, NULL) = 3
7 fcntl(3</srv/db>, F_SETLK, {l_type=F_RDLCK, l_whence=SEEK_SET, l_start=1073741824, l_len=1}) = 0
7 fcntl(3</srv/db>, F_SETLK, {l_type=F_RDLCK, l_whence=SEEK_SET, l_start=1073741826, l_len=510}) = 0
7 fcntl(5</srv/db-shm>, F_SETLK, {l_type=F_RDLCK, l_whence=SEEK_SET, l_start=123, l_len=1}) = 0
7 fcntl(5</srv/db-shm>, F_SETLK, {l_type=F_UNLCK, l_whence=SEEK_SET, l_start=123, l_len=1}) = 0
7 newfstatat(3</srv/db>, "", {st_mode=S_IFREG|0644, st_size=8192, ...}, AT_EMPTY_PATH) = 0
7 newfstatat(3</srv/db>, "", {st_mode=S_IFREG|0644, st_size=8192, ...}, AT_EMPTY_PATH) = 0
7 newfstatat(3</srv/db>, "", {st_mode=S_IFREG|0644, st_size=8192, ...}, AT_EMPTY_PATH) = 0
7 newfstatat(4</srv/a>, "", {st_mode=S_IFREG|0644, st_size=8192, ...}, AT_EMPTY_PATH) = 0
7 fdatasync(3</srv/db>) = 0
""".splitlines()  # noqa: E501 - as strace writes it


def test_questions_to_other_servers_and_to_files_are_counted() -> None:
    asked = list(trace.calls(ASKING))
    found = trace.connects(asked)
    assert found.streams == {"[::1]:80": 1, "/run/db.sock": 1}
    assert found.name_queries == 1
    assert found.sockets["socket:[53]"] == "/run/db.sock"
    assert trace.round_trips(asked) == {"socket:[53]": 2}
    assert trace.transactions(asked) == {"/srv/db": 3}
    assert trace.synced(asked) == {"/srv/db": 1}
