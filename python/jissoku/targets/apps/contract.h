// What the small servers in C and C++ have in common: where they listen, on how many threads, and
// which file of the contract's folder a path means. Nothing here is called for `/` and `/42`, which
// are what the libraries are compared by.
#ifndef JISSOKU_CONTRACT_H
#define JISSOKU_CONTRACT_H

#ifndef _GNU_SOURCE  // for accept4; C++ compilers say so by themselves
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HELLO "Hello, World!"
#define BACKLOG 4096
#define DELAY_MS_MAX 60000

static inline void contract_fail(const char *what) {
    perror(what);
    exit(1);
}

// A listening socket for LISTEN, which is 127.0.0.1:PORT or unix:PATH. With `shares_port`, other
// sockets may listen on the same port, and the kernel deals the connections out.
static inline int contract_listen(const char *where, int shares_port) {
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = {0}};
    struct sockaddr_in inet = {};
    const char *colon = strrchr(where, ':');
    int is_unix = strncmp(where, "unix:", 5) == 0, on = 1;
    if (colon == NULL || strlen(colon) >= sizeof local.sun_path) {
        fprintf(stderr, "%s: LISTEN is 127.0.0.1:PORT or unix:PATH\n", where);
        exit(2);
    }
    int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) contract_fail("socket");
    strcpy(local.sun_path, colon + 1);
    inet.sin_family = AF_INET;
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    inet.sin_port = htons((in_port_t)atoi(colon + 1));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shares_port && !is_unix) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    const struct sockaddr *address = is_unix ? (struct sockaddr *)&local : (struct sockaddr *)&inet;
    if (bind(fd, address, is_unix ? sizeof local : sizeof inet) != 0) contract_fail("bind");
    if (listen(fd, BACKLOG) != 0) contract_fail("listen");
    return fd;
}

// Runs `serve`, which never returns, with a listening socket on each of so many threads. On TCP
// each has a socket of its own; a path can have but one, so there they share it.
static inline void contract_serve(const char *where, int workers, void *(*serve)(void *)) {
    int is_unix = strncmp(where, "unix:", 5) == 0;
    long fd = contract_listen(where, workers > 1);
    for (int i = 1; i < workers; i++) {
        pthread_t thread;
        long own = is_unix ? fd : contract_listen(where, 1);
        if (pthread_create(&thread, NULL, serve, (void *)own) != 0) contract_fail("pthread_create");
    }
    serve((void *)fd);
}

// The milliseconds of /delay?ms=N; -1 for everything else.
static inline long contract_delay_ms(const char *path) {
    char *end;
    if (strncmp(path, "/delay?ms=", 10) != 0 || path[10] < '0' || path[10] > '9') return -1;
    long ms = strtol(path + 10, &end, 10);
    return *end == '\0' && ms <= DELAY_MS_MAX ? ms : -1;
}

// The file that /files/NAME means, open for reading, and its size; -1 for everything else. A name
// is letters, digits, dots and hyphens, and begins with no dot: it cannot lead out of the folder.
static inline int contract_open(int folder, const char *path, off_t *size) {
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    struct stat found;
    if (strncmp(path, "/files/", 7) != 0) return -1;
    const char *name = path + 7;
    if (*name == '\0' || *name == '.' || name[strspn(name, letters)] != '\0') return -1;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        close(fd);
        return -1;
    }
    *size = found.st_size;
    return fd;
}

static inline int contract_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) contract_fail(path);
    return fd;
}

#endif
