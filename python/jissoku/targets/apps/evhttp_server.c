// The common contract on libevent's evhttp, as its documentation shows how to write a server.
//
// evhttp_server LISTEN FILES WORKERS, where LISTEN is 127.0.0.1:PORT or unix:PATH. Each worker is a
// thread with an event base and a listening socket of its own; nothing is shared between them.
#include "contract.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

static int folder;

static void text(struct evhttp_request *request, const char *body, size_t size) {
    struct evbuffer *buffer = evhttp_request_get_output_buffer(request);
    struct evkeyvalq *fields = evhttp_request_get_output_headers(request);
    evhttp_add_header(fields, "Content-Type", "text/plain");
    evbuffer_add_reference(buffer, body, size, NULL, NULL);
    evhttp_send_reply(request, 200, "OK", NULL);
}

static void absent(struct evhttp_request *request) {
    evhttp_send_reply(request, 404, "Not Found", NULL);
}

// A client that has gone meanwhile is evhttp's business: it then frees the request instead.
static void when_due(evutil_socket_t fd, short what, void *request) {
    (void)fd, (void)what;
    text((struct evhttp_request *)request, HELLO, sizeof HELLO - 1);
}

static void delay(struct evhttp_request *request, struct event_base *base, long ms) {
    struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    // Timers count from when the loop last woke up, which may be a while ago: no answer too early.
    event_base_update_cache_time(base);
    event_base_once(base, -1, EV_TIMEOUT, when_due, request, &wait);
}

static void answer(struct evhttp_request *request, void *base) {
    const char *path = evhttp_request_get_uri(request);
    struct evkeyvalq *fields = evhttp_request_get_output_headers(request);
    off_t size;
    long ms;
    int fd;
    if (evhttp_request_get_command(request) != EVHTTP_REQ_GET) {
        absent(request);
    } else if (strcmp(path, "/") == 0) {
        text(request, HELLO, sizeof HELLO - 1);
    } else if (strcmp(path, "/42") == 0) {
        evhttp_add_header(fields, "Server", "bench");
        evhttp_add_header(fields, "Connection", "keep-alive");
        text(request, "42", 2);
    } else if ((ms = contract_delay_ms(path)) >= 0) {
        delay(request, (struct event_base *)base, ms);
    } else if ((fd = contract_open(folder, path, &size)) >= 0) {
        evhttp_add_header(fields, "Content-Type", "application/octet-stream");
        evbuffer_add_file(evhttp_request_get_output_buffer(request), fd, 0, size);
        evhttp_send_reply(request, 200, "OK", NULL);
    } else {
        absent(request);
    }
}

static void *serve(void *listener) {
    struct event_config *config = event_config_new();
    // The clock that evhttp would use otherwise steps by 4 ms, and a delay would end too early.
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    struct event_base *base = event_base_new_with_config(config);
    struct evhttp *http = base ? evhttp_new(base) : NULL;
    if (http == NULL) contract_fail("event_base_new_with_config");
    evhttp_set_allowed_methods(http, 0xffff);
    evhttp_set_gencb(http, answer, base);
    if (evhttp_accept_socket(http, (int)(long)listener) != 0) contract_fail("evhttp_accept_socket");
    event_base_dispatch(base);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("libevent %s, backend %s\n", event_get_version(),
               event_base_get_method(event_base_new()));
        return 0;
    }
    if (argc != 4) {
        fprintf(stderr, "usage: evhttp_server LISTEN FILES WORKERS\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    folder = contract_folder(argv[2]);
    contract_serve(argv[1], atoi(argv[3]), serve);
}
