// An HTTP server of our own on bare libev, which brings the loop and the timers and no HTTP.
//
// libev_server LISTEN WORKERS, where LISTEN is 127.0.0.1:PORT or unix:PATH. Each worker is a thread
// with a loop and a listening socket of its own; nothing is shared between them.
//
// It knows as much of HTTP as the question needs: heads of up to 4 KiB, one after the other or many
// at once, connections that are kept or not. It reads no body, so a request that has one is refused
// and its connection closed, lest the body be taken for the next request.
#include "contract.h"

#include <errno.h>
#include <ev.h>
#include <strings.h>

#define HEAD_MAX 4096
#define ANSWERS_MAX 16384
#define ANSWER_MAX 256
#define ACCEPTS_MAX 64

#define LINE(status) "HTTP/1.1 " status "\r\n"
#define CLOSE "Connection: close\r\n"
#define TEXT(size) "Content-Type: text/plain\r\nContent-Length: " size "\r\n\r\n"
// Each for a connection that is closed after it, and for one that is kept.
static const char *const HELLO_ANSWER[] = {
    LINE("200 OK") CLOSE TEXT("13") HELLO,
    LINE("200 OK") TEXT("13") HELLO,
};
static const char *const E5_ANSWER[] = {
    LINE("200 OK") "Server: bench\r\n" CLOSE TEXT("2") "42",
    LINE("200 OK") "Server: bench\r\nConnection: keep-alive\r\n" TEXT("2") "42",
};
static const char *const ABSENT[] = {
    LINE("404 Not Found") CLOSE TEXT("0"),
    LINE("404 Not Found") TEXT("0"),
};
static const char REFUSED[] = LINE("400 Bad Request") CLOSE TEXT("0");
static const char TOO_LARGE[] = LINE("431 Request Header Fields Too Large") CLOSE TEXT("0");

struct connection {
    ev_io readable, writable;
    ev_timer due;
    int fd, keeps_alive, is_waiting;
    size_t filled, owed, sent;
    char in[HEAD_MAX + 1];
    char out[ANSWERS_MAX];
};

static void end(struct ev_loop *loop, struct connection *c) {
    ev_io_stop(loop, &c->readable);
    ev_io_stop(loop, &c->writable);
    ev_timer_stop(loop, &c->due);
    close(c->fd);
    free(c);
}

static void append(struct connection *c, const char *answer) {
    size_t size = strlen(answer);
    memcpy(c->out + c->owed, answer, size);
    c->owed += size;
}

static void refuse(struct connection *c, const char *answer) {
    append(c, answer);
    c->keeps_alive = 0;
}

// The value of a field, where a head has it; `head` is a string that ends behind its last line.
static const char *field(const char *head, const char *name) {
    size_t size = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, size) == 0 && line[size] == ':') {
            return line + size + 1 + strspn(line + size + 1, " \t");
        }
    }
    return NULL;
}

static void answer(struct ev_loop *loop, struct connection *c, char *head) {
    const char *wish = field(head, "Connection");
    char *space = strncmp(head, "GET /", 5) == 0 ? strchr(head + 4, ' ') : NULL;
    int is_old = strstr(head, " HTTP/1.0\r\n") != NULL;
    if (!(is_old || strstr(head, " HTTP/1.1\r\n")) || field(head, "Content-Length") ||
        field(head, "Transfer-Encoding")) {
        refuse(c, REFUSED);
        return;
    }
    c->keeps_alive = !is_old && (!wish || strncasecmp(wish, "close", 5) != 0);
    if (space) *space = '\0';
    const char *path = space ? head + 4 : "";
    long ms = contract_delay_ms(path);
    if (ms >= 0) {
        // Timers count from when the loop last woke up: no answer may come too early.
        ev_now_update(loop);
        ev_timer_set(&c->due, (double)ms / 1000, 0.);
        ev_timer_start(loop, &c->due);
        c->is_waiting = 1;
    } else if (strcmp(path, "/") == 0) {
        append(c, HELLO_ANSWER[c->keeps_alive]);
    } else {
        append(c, (strcmp(path, "/42") == 0 ? E5_ANSWER : ABSENT)[c->keeps_alive]);
    }
}

// Sends what is owed; whether the connection is still there.
static int flush(struct ev_loop *loop, struct connection *c) {
    while (c->sent < c->owed) {
        ssize_t n = send(c->fd, c->out + c->sent, c->owed - c->sent, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            ev_io_start(loop, &c->writable);
            return 1;
        }
        if (n < 0) {
            end(loop, c);
            return 0;
        }
        c->sent += (size_t)n;
    }
    c->sent = c->owed = 0;
    ev_io_stop(loop, &c->writable);
    if (!c->keeps_alive && !c->is_waiting) {
        end(loop, c);
        return 0;
    }
    return 1;
}

// Answers the whole heads that have come, as many as there is room for; how many bytes they were.
static size_t answer_all(struct ev_loop *loop, struct connection *c) {
    size_t done = 0;
    char *stop;
    c->in[c->filled] = '\0';
    while (c->keeps_alive && !c->is_waiting && c->owed < ANSWERS_MAX - ANSWER_MAX &&
           (stop = strstr(c->in + done, "\r\n\r\n")) != NULL) {
        stop[2] = '\0';
        answer(loop, c, c->in + done);
        done = (size_t)(stop + 4 - c->in);
    }
    c->filled -= done;
    memmove(c->in, c->in + done, c->filled);
    return done;
}

// Answers what has come, with one call for as many answers as there is room for.
static void serve(struct ev_loop *loop, struct connection *c) {
    size_t done;
    do {
        done = answer_all(loop, c);
        if (c->filled == HEAD_MAX && !done && !c->owed && !c->is_waiting) refuse(c, TOO_LARGE);
        if (!flush(loop, c)) return;
    } while (done && c->filled && !c->owed);
}

static void when_readable(struct ev_loop *loop, ev_io *watcher, int events) {
    struct connection *c = (struct connection *)watcher->data;
    (void)events;
    if (c->filled == HEAD_MAX) {  // as full as it may be while an answer is owed
        ev_io_stop(loop, watcher);
        return;
    }
    ssize_t n = recv(c->fd, c->in + c->filled, HEAD_MAX - c->filled, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        end(loop, c);
    } else if (n > 0) {
        c->filled += (size_t)n;
        serve(loop, c);
    }
}

static void go_on(struct ev_loop *loop, struct connection *c) {
    if (!flush(loop, c)) return;
    ev_io_start(loop, &c->readable);
    if (!c->owed && c->filled) serve(loop, c);
}

static void when_writable(struct ev_loop *loop, ev_io *watcher, int events) {
    (void)events;
    go_on(loop, (struct connection *)watcher->data);
}

static void when_due(struct ev_loop *loop, ev_timer *watcher, int events) {
    struct connection *c = (struct connection *)watcher->data;
    (void)events;
    c->is_waiting = 0;
    append(c, HELLO_ANSWER[c->keeps_alive]);
    go_on(loop, c);
}

static void when_asked(struct ev_loop *loop, ev_io *watcher, int events) {
    int on = 1;
    (void)events;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = accept4(watcher->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        struct connection *c = (struct connection *)malloc(sizeof *c);
        if (c == NULL) {
            close(fd);
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a Unix socket has no Nagle
        c->fd = fd;
        c->keeps_alive = 1;
        c->is_waiting = 0;
        c->filled = c->owed = c->sent = 0;
        ev_io_init(&c->readable, when_readable, fd, EV_READ);
        ev_io_init(&c->writable, when_writable, fd, EV_WRITE);
        ev_timer_init(&c->due, when_due, 0., 0.);
        c->readable.data = c->writable.data = c->due.data = c;
        ev_io_start(loop, &c->readable);
    }
}

static void *run(void *listener) {
    struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL);
    ev_io asked;
    if (loop == NULL) contract_fail("ev_loop_new");
    ev_io_init(&asked, when_asked, (int)(long)listener, EV_READ);
    ev_io_start(loop, &asked);
    ev_run(loop, 0);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("libev %d.%d\n", ev_version_major(), ev_version_minor());
        return 0;
    }
    if (argc != 3) {
        fprintf(stderr, "usage: libev_server LISTEN WORKERS\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    contract_serve(argv[1], atoi(argv[2]), run);
}
