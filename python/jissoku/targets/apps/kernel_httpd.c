// The process of kernel-httpd: puts connections into the kernel's hands, and does the rest itself.
//
// kernel_httpd ADDRESS:PORT OBJECT, where OBJECT is kernel_httpd.bpf.c compiled; --version alone
// prints what it stands on. It loads the object, listens, accepts, and puts each connection into the
// map on which the object's programs hang. From then on it sleeps, unless the kernel's part notes
// that it left something: another path, a head in pieces, a body, a field on the connection. Nothing
// is pinned: when this process ends, in whatever way, so does all that it put into the kernel.

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel_httpd.h"

#define HEAD_BYTES_MAX 8192
#define EVENTS_MAX 256

// What a connection left to us has sent so far.
struct connection {
    __u64 cookie;
    __u32 filled;
    char head[HEAD_BYTES_MAX + 1];
};

static const char not_found[] = "HTTP/1.1 404 Not Found\r\nConnection: close\r\n"
                                "Content-Type: text/plain\r\nContent-Length: 10\r\n\r\nNot Found\n";
static const char too_much[] = "HTTP/1.1 501 Not Implemented\r\nConnection: close\r\n"
                               "Content-Type: text/plain\r\nContent-Length: 16\r\n\r\nNot Implemented\n";
static const char farewell[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
                               "Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

static struct connection *connections[CONNECTIONS_MAX]; // by descriptor
static int epoll, listener, signals, map, left, answers;
static struct ring_buffer *notes;
static unsigned long long answered_here;

static void fail(const char *what, int error)
{
    fprintf(stderr, "kernel-httpd: %s: %s\n", what, strerror(error));
    exit(1);
}

static int say(enum libbpf_print_level level, const char *format, va_list words)
{
    return level == LIBBPF_WARN ? vfprintf(stderr, format, words) : 0;
}

static void watch(int fd, __u32 events, int operation)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    if (epoll_ctl(epoll, operation, fd, &event))
        fail("epoll_ctl", errno);
}

static void end(int fd)
{
    bpf_map_delete_elem(left, &connections[fd]->cookie);
    free(connections[fd]);
    connections[fd] = NULL;
    close(fd); // which takes it out of the map and out of epoll
}

// Whether a head has a field, whose name stands with its colon, and with this word if there is one.
static int has(const char *head, const char *field, const char *word)
{
    for (const char *line = strchr(head, '\n'); line; line = strchr(line + 1, '\n')) {
        if (strncasecmp(line + 1, field, strlen(field)))
            continue;
        const char *found = word ? strcasestr(line + 1, word) : line;
        if (found && found < strchr(line + 1, '\n'))
            return 1;
    }
    return 0;
}

// Answers one head; whether the connection stays.
static int answer(int fd, const char *head)
{
    const char *words = ANSWER;
    int stays = 0;

    if (strncmp(head, "GET ", 4) || has(head, "Content-Length:", NULL) ||
        has(head, "Transfer-Encoding:", NULL))
        words = too_much;
    else if (strncmp(head, REQUEST, REQUEST_BYTES))
        words = not_found;
    else if (has(head, "Connection:", "close"))
        words = farewell;
    else
        stays = 1;
    answered_here++;
    // An answer that does not fit into an empty socket buffer goes to a client that reads nothing.
    return send(fd, words, strlen(words), MSG_NOSIGNAL) == (ssize_t)strlen(words) && stays;
}

// Reads and answers what the kernel's part left; whether the connection stays.
static int serve(int fd)
{
    struct connection *self = connections[fd];

    for (;;) {
        ssize_t got = recv(fd, self->head + self->filled, HEAD_BYTES_MAX - self->filled, 0);
        if (got <= 0)
            return got < 0 && errno == EAGAIN;
        self->filled += got;
        self->head[self->filled] = 0;
        for (char *last; (last = strstr(self->head, "\r\n\r\n"));) {
            char next = last[4];
            last[4] = 0;
            if (!answer(fd, self->head))
                return 0;
            last[4] = next;
            self->filled -= last + 4 - self->head;
            memmove(self->head, last + 4, self->filled + 1);
        }
        if (self->filled == HEAD_BYTES_MAX)
            return 0;
    }
}

static void take_in(void)
{
    const int yes = 1;

    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return; // Out of descriptors or done; those who wait are met again.
        struct connection *self = fd < CONNECTIONS_MAX ? malloc(sizeof(*self)) : NULL;
        if (!self) {
            close(fd);
            continue;
        }
        socklen_t size = sizeof(self->cookie);
        __u64 value = fd;
        connections[fd] = self;
        self->filled = 0;
        self->head[0] = 0;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &self->cookie, &size))
            fail("SO_COOKIE", errno);
        // Only an end wakes us; anything else is notified. A connection that the map
        // does not take, as when it is half closed by now, is ours alone. What came before it was in
        // the map nobody has seen, and is read here.
        int is_out = bpf_map_update_elem(map, &self->cookie, &value, BPF_ANY);
        watch(fd, is_out ? EPOLLIN | EPOLLRDHUP : EPOLLRDHUP, EPOLL_CTL_ADD);
        if (!serve(fd))
            end(fd);
    }
}

static int on_note(void *context, void *cookie, size_t size)
{
    (void)context, (void)size;
    for (int fd = 0; fd < CONNECTIONS_MAX; fd++)
        if (connections[fd] && connections[fd]->cookie == *(__u64 *)cookie) {
            watch(fd, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_MOD);
            break;
        }
    return 0;
}

static void put_into_kernel(const char *path)
{
    struct bpf_object *object = bpf_object__open_file(path, NULL);

    if (!object)
        fail(path, errno);
    if (bpf_object__load(object))
        fail("the kernel does not take the programs (they need root)", errno);
    map = bpf_object__find_map_fd_by_name(object, "connections");
    left = bpf_object__find_map_fd_by_name(object, "left_to_process");
    answers = bpf_object__find_map_fd_by_name(object, "answers");
    int take = bpf_program__fd(bpf_object__find_program_by_name(object, "take"));
    int give = bpf_program__fd(bpf_object__find_program_by_name(object, "answer"));
    if (bpf_prog_attach(take, map, BPF_SK_SKB_STREAM_VERDICT, 0) ||
        bpf_prog_attach(give, map, BPF_SK_MSG_VERDICT, 0))
        fail("the programs cannot be attached to a map of sockets", errno);
    notes = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "notes"), on_note, NULL, NULL);
    if (!notes)
        fail("the kernel's notes cannot be read", errno);
    watch(ring_buffer__epoll_fd(notes), EPOLLIN, EPOLL_CTL_ADD);
}

// Whether the text is ADDRESS:PORT, of IPv4.
static int read_address(const char *text, struct sockaddr_in *address)
{
    char host[INET_ADDRSTRLEN] = "", rest;
    unsigned short port;

    if (sscanf(text, "%15[0-9.]:%hu%c", host, &port, &rest) != 2)
        return 0;
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    return inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

static void listen_on(const struct sockaddr_in *address)
{
    const int yes = 1;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(listener, (const struct sockaddr *)address, sizeof(*address)) ||
        listen(listener, 4096))
        fail("it cannot listen", errno);
    watch(listener, EPOLLIN, EPOLL_CTL_ADD);
}

static void catch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    watch(signals, EPOLLIN, EPOLL_CTL_ADD);
}

static void print_version(void)
{
    int cores = libbpf_num_possible_cpus();
    __u64 each[cores], inside = 0;
    __u32 first = 0;

    if (!bpf_map_lookup_elem(answers, &first, each))
        for (int core = 0; core < cores; core++)
            inside += each[core];
    printf("answers inside the kernel: %llu, by the process: %llu\n", (unsigned long long)inside,
           answered_here);
}

int main(int count, char **words)
{
    struct epoll_event events[EVENTS_MAX];
    struct sockaddr_in address = {0};
    struct utsname kernel;

    if (count == 2 && !strcmp(words[1], "--version")) {
        uname(&kernel);
        printf("kernel-httpd: libbpf %s, Linux %s\n", libbpf_version_string(), kernel.release);
        return 0;
    }
    if (count != 3 || !read_address(words[1], &address)) {
        fprintf(stderr, "kernel-httpd: say kernel-httpd ADDRESS:PORT OBJECT, or --version\n");
        return 2;
    }
    libbpf_set_print(say);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    catch_signals();
    put_into_kernel(words[2]);
    listen_on(&address);
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (ready < 0 && errno != EINTR)
            fail("epoll_wait", errno);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == signals) {
                print_version();
                return 0;
            }
            if (fd == listener)
                take_in();
            else if (fd == ring_buffer__epoll_fd(notes))
                ring_buffer__consume(notes);
            else if (connections[fd] && (!serve(fd) || events[i].events & EPOLLRDHUP))
                end(fd);
        }
    }
}
