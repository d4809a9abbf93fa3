/* A server that burns a known share of each request's CPU time in injected_burn.
 *
 *   server PORT BURN_PERMILLE
 *
 * Each request does UNITS units of the same work; that many thousandths of them in injected_burn and
 * the rest in ordinary_work. One thread, poll(2), keep-alive, one answer for everything. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNITS 400000
#define PEERS 512

static volatile uint64_t sink;

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

int main(int argc, char **argv) {
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
    struct pollfd peers[PEERS];
    struct sockaddr_in at = {.sin_family = AF_INET};
    char buffer[4096];
    int one = 1, count = 1;
    long burnt;
    if (argc < 3) return 2;
    burnt = atol(argv[2]);
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
            injected_burn(UNITS * burnt / 1000);
            ordinary_work(UNITS * (1000 - burnt) / 1000);
            if (write(peers[i].fd, answer, sizeof answer - 1) < 0) close(peers[i].fd);
        }
    }
}
