// The common contract as a handler of `jissoku serve`, which serves /files/ itself.
#include <jissoku.h>
#include <string.h>

#define HELLO "Hello, World!"
#define DELAY_MS_MAX 60000

static int hello(const jsk_api *js, jsk_request *r, void *argument) {
    (void)argument;
    if (r == NULL) return 0;
    js->header(r, "Content-Type", "text/plain");
    return js->respond(r, 200, HELLO, sizeof HELLO - 1);
}

// The milliseconds of /delay?ms=N; -1 for everything else.
static long delay_ms(const jsk_api *js, jsk_request *r) {
    jsk_str digits = js->query(r, "ms");
    long ms = 0;
    if (digits.len == 0 || digits.len > 5) return -1;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '9') return -1;
        ms = ms * 10 + (digits.ptr[i] - '0');
    }
    return ms <= DELAY_MS_MAX ? ms : -1;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    long ms;
    if (path.len == 1) return hello(js, r, NULL);
    if (path.len == 6 && memcmp(path.ptr, "/delay", 6) == 0 && (ms = delay_ms(js, r)) >= 0)
        return js->after(r, (uint32_t)ms, hello, NULL);
    return js->respond(r, 404, NULL, 0);
}
