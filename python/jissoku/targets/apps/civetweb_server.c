// The common contract on CivetWeb, with one handler for every request.
//
// civetweb_server PORT FILES THREADS. Every open connection has one of CivetWeb's threads, which
// waits for its requests and answers them; a connection beyond them waits for a thread.
#include "contract.h"

#include <civetweb.h>
#include <strings.h>

#define TEXT(fields, size) \
    "HTTP/1.1 200 OK\r\n" fields "Content-Type: text/plain\r\nContent-Length: " size "\r\n\r\n"
// Each for a connection that is closed after it, and for one that is kept.
static const char *const HELLO_ANSWER[] = {
    TEXT("Connection: close\r\n", "13") HELLO,
    TEXT("Connection: keep-alive\r\n", "13") HELLO,
};
static const char *const E5_ANSWER[] = {
    TEXT("Server: bench\r\nConnection: close\r\n", "2") "42",
    TEXT("Server: bench\r\nConnection: keep-alive\r\n", "2") "42",
};
static const char ABSENT[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

static int folder;
static const char *folder_path;

static int keeps_alive(struct mg_connection *connection) {
    const char *wish = mg_get_header(connection, "Connection");
    return wish == NULL || strncasecmp(wish, "close", 5) != 0;
}

static int say(struct mg_connection *connection, const char *answer, int status) {
    mg_write(connection, answer, strlen(answer));
    return status;
}

static int send_file(struct mg_connection *connection, const char *path, int fd) {
    char full[4096];
    close(fd);  // CivetWeb opens it by its name
    snprintf(full, sizeof full, "%s%s", folder_path, path + 6);
    mg_send_mime_file(connection, full, "application/octet-stream");
    return 200;
}

static int answer(struct mg_connection *connection, void *ours) {
    const struct mg_request_info *asked = mg_get_request_info(connection);
    const char *path = asked->local_uri_raw ? asked->local_uri_raw : "";
    char delay[32] = "";
    int kept = keeps_alive(connection), fd;
    off_t size;
    long ms;
    (void)ours;
    if (strcmp(asked->request_method, "GET") != 0) path = "";
    if (strcmp(path, "/") == 0) return say(connection, HELLO_ANSWER[kept], 200);
    if (strcmp(path, "/42") == 0) return say(connection, E5_ANSWER[kept], 200);
    if (asked->query_string) snprintf(delay, sizeof delay, "%s?%s", path, asked->query_string);
    if ((ms = contract_delay_ms(delay)) >= 0) {
        usleep((useconds_t)ms * 1000);
        return say(connection, HELLO_ANSWER[kept], 200);
    }
    if ((fd = contract_open(folder, path, &size)) >= 0) return send_file(connection, path, fd);
    return say(connection, ABSENT, 404);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("CivetWeb %s\n", mg_version());
        return 0;
    }
    if (argc != 4) {
        fprintf(stderr, "usage: civetweb_server PORT FILES THREADS\n");
        return 2;
    }
    char port[32];
    snprintf(port, sizeof port, "127.0.0.1:%s", argv[1]);
    const char *options[] = {
        "listening_ports",   port,  "num_threads",           argv[3], "enable_keep_alive", "yes",
        "request_timeout_ms", "30000", "keep_alive_timeout_ms", "75000", "tcp_nodelay",       "1",
        NULL,
    };
    struct mg_callbacks callbacks = {0};
    signal(SIGPIPE, SIG_IGN);
    folder_path = argv[2];
    folder = contract_folder(argv[2]);
    mg_init_library(0);
    struct mg_context *server = mg_start(&callbacks, NULL, options);
    if (server == NULL) contract_fail("mg_start");
    mg_set_request_handler(server, "/", answer, NULL);
    for (;;) pause();
}
