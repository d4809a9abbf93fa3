/* A server that burns a known share of each request's CPU time in injected_burn.
 *
 *   server PORT BURN_PERMILLE [ORDINARY_PERMILLE FILE]
 *
 * Each request does BURN thousandths of UNITS units of work in injected_burn and ORDINARY (1000 - BURN)
 * thousandths of the same in ordinary_work. Every LOGGED requests a line is added to FILE: monotonic time,
 * requests, and CPU time of all calls of injected_burn, in nanoseconds. One thread, poll(2), keep-alive. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define UNITS 400000
#define PEERS 512
#define LOGGED 32

static volatile uint64_t sink;
static FILE *truth;
static long requests;
static long long burnt_ns;

__attribute__((noinline)) void injected_burn(long rounds) {
    uint64_t x = 1;
    for (long i = 0; i < rounds; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

__attribute__((noinline)) void ordinary_work(long rounds) {
    uint64_t x = 2;
    for (long i = 0; i < rounds; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

static long long now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void work(long burn, long ordinary) {
    long long start_ns;
    if (!truth) {
        injected_burn(UNITS / 1000 * burn);
        ordinary_work(UNITS / 1000 * ordinary);
        return;
    }
    start_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    injected_burn(UNITS / 1000 * burn);
    burnt_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
    ordinary_work(UNITS / 1000 * ordinary);
    if (++requests % LOGGED == 0) {
        fprintf(truth, "%lld %ld %lld\n", now_ns(CLOCK_MONOTONIC), requests, burnt_ns);
        fflush(truth);
    }
}

int main(int argc, char **argv) {
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
    struct pollfd peers[PEERS];
    struct sockaddr_in at = {.sin_family = AF_INET};
    char buffer[4096];
    int one = 1, count = 1;
    long burn, ordinary;
    if (argc < 3) return 2;
    burn = atol(argv[2]);
    ordinary = argc > 3 ? atol(argv[3]) : 1000 - burn;
    truth = argc > 4 ? fopen(argv[4], "a") : 0;
    at.sin_port = htons((uint16_t)atoi(argv[1]));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peers[0] = (struct pollfd){.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN};
    setsockopt(peers[0].fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(peers[0].fd, (struct sockaddr *)&at, sizeof at) || listen(peers[0].fd, 256)) return 1;
    for (;;) {
        if (poll(peers, count, -1) < 0) continue;
        if (peers[0].revents && count < PEERS) {
            int fd = accept(peers[0].fd, 0, 0);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            if (fd >= 0) peers[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        for (int i = 1; i < count; i++) {
            ssize_t got;
            if (!peers[i].revents) continue;
            got = read(peers[i].fd, buffer, sizeof buffer);
            if (got <= 0) {
                close(peers[i].fd);
                peers[i--] = peers[--count];
                continue;
            }
            work(burn, ordinary);
            if (write(peers[i].fd, answer, sizeof answer - 1) < 0) close(peers[i].fd);
        }
    }
}
