// The common contract on libmicrohttpd, as its tutorial shows how to write a server.
//
// microhttpd_server LISTEN FILES WORKERS [--poll] [--threads N], where LISTEN is 127.0.0.1:PORT or
// unix:PATH. By default it waits with epoll, on as many threads of the library's pool as
// there are workers. All of them share one listening socket.
#include "contract.h"

#include <microhttpd.h>

// The library's own limit is what select() could hold.
#define CONNECTIONS_MAX 20000

static int folder;
static struct MHD_Response *hello, *forty_two, *absent;

static struct MHD_Response *text(const char *body) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(body), (void *)body, MHD_RESPMEM_PERSISTENT);
    if (response == NULL) contract_fail("MHD_create_response_from_buffer");
    MHD_add_response_header(response, "Content-Type", "text/plain");
    return response;
}

static enum MHD_Result file(struct MHD_Connection *connection, int fd, off_t size) {
    struct MHD_Response *response = MHD_create_response_from_fd64((uint64_t)size, fd);
    if (response == NULL) {
        close(fd);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "application/octet-stream");
    enum MHD_Result done = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return done;
}

// `path` is without its query and has its %XX undone; contract_open looks at what is left of it.
static enum MHD_Result answer(void *ours, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **of_request) {
    off_t size;
    int fd;
    (void)ours, (void)version, (void)body;
    if (*of_request == NULL || *body_size > 0) {
        // Asked when the head has come, for each piece of a body, and then for the answer. If it is
        // given sooner, the connection is closed.
        *of_request = &hello;
        *body_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0) return MHD_queue_response(connection, 404, absent);
    if (strcmp(path, "/") == 0) return MHD_queue_response(connection, 200, hello);
    if (strcmp(path, "/42") == 0) return MHD_queue_response(connection, 200, forty_two);
    fd = contract_open(folder, path, &size);
    if (fd >= 0) return file(connection, fd, size);
    return MHD_queue_response(connection, 404, absent);
}

struct choice {
    unsigned way, threads;
};

static struct choice choose(int argc, char **argv) {
    struct choice chosen = {MHD_USE_EPOLL_INTERNAL_THREAD, (unsigned)atoi(argv[3])};
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--poll") == 0) {
            chosen.way = MHD_USE_POLL_INTERNAL_THREAD;
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            chosen.threads = (unsigned)atoi(argv[++i]);
        } else {
            fprintf(stderr, "%s is not known; there are --poll and --threads N\n", argv[i]);
            exit(2);
        }
    }
    return chosen;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("libmicrohttpd %s\n", MHD_get_version());
        return 0;
    }
    if (argc < 4) {
        fprintf(stderr, "usage: microhttpd_server LISTEN FILES WORKERS [--poll] [--threads N]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    struct choice chosen = choose(argc, argv);
    folder = contract_folder(argv[2]);
    hello = text(HELLO);
    forty_two = text("42");
    MHD_add_response_header(forty_two, "Server", "bench");
    MHD_set_response_options(forty_two, MHD_RF_SEND_KEEP_ALIVE_HEADER, MHD_RO_END);
    absent = text("");
    // A single thread is what the library has without a pool.
    struct MHD_Daemon *daemon = MHD_start_daemon(
        chosen.way, 0, NULL, NULL, answer, NULL, MHD_OPTION_LISTEN_SOCKET,
        contract_listen(argv[1], 0), MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_THREAD_POOL_SIZE, chosen.threads > 1 ? chosen.threads : 0, MHD_OPTION_END);
    if (daemon == NULL) contract_fail("MHD_start_daemon");
    for (;;) pause();
}
