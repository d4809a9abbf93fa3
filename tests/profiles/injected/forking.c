/* A server that starts a process for each request, which ends at once, as CGI's do.
 *
 *   forking PORT
 *
 * One connection at a time per turn of poll(2); the answer is sent when the child has ended. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEERS 512

static volatile uint64_t sink;

/* A fifth of a millisecond: shorter than the period of samples. */
__attribute__((noinline)) void short_work(void) {
    uint64_t x = 1;
    for (long i = 0; i < 150000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

int main(int argc, char **argv) {
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
    struct pollfd peers[PEERS];
    struct sockaddr_in at = {.sin_family = AF_INET};
    char buffer[4096];
    int one = 1, count = 1;
    if (argc < 2) return 2;
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
            pid_t child;
            if (!peers[i].revents) continue;
            got = read(peers[i].fd, buffer, sizeof buffer);
            if (got <= 0) {
                close(peers[i].fd);
                peers[i--] = peers[--count];
                continue;
            }
            child = fork();
            if (child == 0) {
                short_work();
                _exit(0);
            }
            waitpid(child, 0, 0);
            if (write(peers[i].fd, answer, sizeof answer - 1) < 0) close(peers[i].fd);
        }
    }
}
