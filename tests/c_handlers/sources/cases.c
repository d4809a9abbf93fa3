/* What a handler gets of a request, and what becomes of its response, by the path. */
#include <jissoku.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int released;

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static void count_release(void *body) {
    released++;
    free(body);
}

struct text {
    char bytes[65536];
    size_t size;
};

static int append(void *argument, jsk_str name, jsk_str value) {
    struct text *text = argument;
    text->size += (size_t)snprintf(text->bytes + text->size, sizeof text->bytes - text->size,
                                   "%.*s=%.*s\n", JSK_ARG(name), JSK_ARG(value));
    return 0;
}

static int show(const jsk_api *js, jsk_request *r) {
    jsk_str method = js->method(r), target = js->target(r), path = js->path(r);
    jsk_str query = js->query_string(r), client = js->client(r), scheme = js->scheme(r);
    jsk_str version = js->http_version(r), form = js->form(r, "f"), body = js->body(r);
    return js->printf(r, 200, "%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n%.*s\n%.*s", JSK_ARG(method),
                      JSK_ARG(target), JSK_ARG(path), JSK_ARG(query), JSK_ARG(client), JSK_ARG(scheme),
                      JSK_ARG(version), JSK_ARG(form), JSK_ARG(body));
}

static int lend(const jsk_api *js, jsk_request *r, size_t size) {
    char *body = malloc(size);
    memset(body, 'x', size);
    return js->respond_owned(r, 200, body, size, count_release, body);
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    static struct text text;
    text.size = 0;
    if (is(path, "/fields")) {
        js->each_field(r, append, &text);
        return js->respond(r, 200, text.bytes, text.size);
    }
    if (is(path, "/queries")) {
        js->each_query(r, append, &text);
        return js->respond(r, 200, text.bytes, text.size);
    }
    if (is(path, "/large"))
        return lend(js, r, 4 << 20);
    if (is(path, "/released"))
        return js->printf(r, 200, "%d", released);
    if (is(path, "/copied")) {
        char *body = calloc(1, 1 << 20);
        int result = js->respond(r, 201, body, 1 << 20);
        free(body);
        return result;
    }
    if (is(path, "/etag")) {
        js->header(r, "ETag", "\"v1\"");
        return js->printf(r, 200, "version 1");
    }
    if (is(path, "/refused"))
        return js->printf(r, 200, "%d %d %d %d %d", js->header(r, "A", "b\r\nC: d"),
                          js->header(r, "A b", "c"), js->header(r, "Content-Length", "1"),
                          js->header_str(r, "X", js->query(r, "x")), js->printf(r, 99, "early"));
    if (is(path, "/failed")) {
        js->printf(r, 200, "never seen");
        return 7;
    }
    if (is(path, "/silent"))
        return 0;
    if (is(path, "/escape")) {
        jsk_str text = js->query(r, "t"), html = js->escape_html(r, text);
        jsk_str json = js->escape_json(r, text), url = js->escape_url(r, text);
        js->header_str(r, "X-Date", js->http_date(r, 784111777));
        return js->printf(r, 200, "%.*s\n%.*s\n%.*s", JSK_ARG(html), JSK_ARG(json), JSK_ARG(url));
    }
    if (is(path, "/no-content"))
        return js->respond(r, 204, NULL, 0);
    return show(js, r);
}
