/* Responses in parts, by the handler or by threads, and wrong uses of their functions. The bytes of a
 * body are those of 0 to 250 in turn, so that a part that is lost or repeated shows. */
#include <jissoku.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERIOD 251

/* Repeated for any start within the period. */
static char bytes_of_body[(1 << 20) + PERIOD];

static char results[4096];
static size_t results_size;
static int gone_count, ended_count;
static uint64_t written_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static uint64_t number(const jsk_api *js, jsk_request *r, const char *name, uint64_t otherwise) {
    jsk_str value = js->query(r, name);
    char digits[24] = "";
    if (value.ptr == NULL)
        return otherwise;
    memcpy(digits, value.ptr, value.len < 23 ? value.len : 23);
    return strtoull(digits, NULL, 10);
}

static void note(int result) {
    pthread_mutex_lock(&lock);
    results_size += (size_t)snprintf(results + results_size, sizeof results - results_size, "%d ", result);
    pthread_mutex_unlock(&lock);
}

static void count(int *counter) {
    pthread_mutex_lock(&lock);
    ++*counter;
    pthread_mutex_unlock(&lock);
}

static int get(int *counter) {
    pthread_mutex_lock(&lock);
    int value = *counter;
    pthread_mutex_unlock(&lock);
    return value;
}

static void on_gone(void *argument) {
    count(argument);
}

/* What is still to be written. */
struct body {
    const jsk_api *js;
    uint64_t token, start, left, part, known;
    /* Milliseconds before each part; what the last call returns. */
    uint32_t ms;
    int last;
};

static struct body *body_of(const jsk_api *js, jsk_request *r) {
    struct body *body = malloc(sizeof *body);
    uint64_t size = number(js, r, "size", 100000);
    *body = (struct body){js, 0, 0, size, number(js, r, "part", 1000),
                          number(js, r, "known", 0) != 0 ? size : JSK_UNKNOWN,
                          (uint32_t)number(js, r, "ms", 0), (int)number(js, r, "last", 0)};
    return body;
}

/* Where the next part is, and its size. */
static const char *next_part(struct body *body, size_t *size) {
    const char *start = bytes_of_body + body->start % PERIOD;
    *size = body->left < body->part ? body->left : body->part;
    body->start += *size;
    body->left -= *size;
    return start;
}

static int continue_body(const jsk_api *js, jsk_request *r, void *argument) {
    struct body *body = argument;
    size_t size;
    if (r == NULL) {
        free(body);
        on_gone(&gone_count);
        return 0;
    }
    const char *part = next_part(body, &size);
    if (js->write(r, part, size) != 0)
        return 1;
    if (body->left > 0 && body->ms > 0)
        return js->after(r, body->ms, continue_body, body);
    if (body->left > 0)
        return js->when_sent(r, continue_body, body);
    int last = body->last;
    free(body);
    /* 1: it forgets to go on; otherwise, it fails unless it is 0. */
    return last == 1 ? 0 : last != 0 ? last : js->end(r);
}

static void *write_body(void *argument) {
    struct body *body = argument;
    const jsk_api *js = body->js;
    jsk_field fields[] = {{"Content-Type", "text/x-parts"}, {"X-Thread", "yes"}};
    size_t size;
    int result = js->begin_later(body->token, 200, fields, 2, body->known);
    while (result == 0 && body->left > 0) {
        const char *part = next_part(body, &size);
        result = js->write_later(body->token, part, size);
        __atomic_fetch_add(&written_count, size, __ATOMIC_SEQ_CST);
        usleep(body->ms * 1000);
    }
    if (body->last == 0)
        js->end_later(body->token);
    count(&ended_count);
    free(body);
    return NULL;
}

static int in_thread(const jsk_api *js, jsk_request *r, void *(*function)(void *)) {
    pthread_t thread;
    struct body *body = body_of(js, r);
    js->header(r, "X-Early", "yes");
    body->token = js->defer(r, (uint32_t)number(js, r, "patience", 60000), on_gone, &gone_count);
    __atomic_store_n(&written_count, 0, __ATOMIC_SEQ_CST);
    pthread_create(&thread, NULL, function, body);
    pthread_detach(thread);
    return 0;
}

/* All wrong uses by a thread. */
static void *misuse(void *argument) {
    struct body *body = argument;
    const jsk_api *js = body->js;
    uint64_t token = body->token;
    jsk_field broken = {"A", "b\r\nC: d"};
    results_size = 0;
    note(js->write_later(token, "x", 1));
    note(js->end_later(token));
    note(js->begin_later(token, 99, NULL, 0, JSK_UNKNOWN));
    note(js->begin_later(token, 200, NULL, 1, JSK_UNKNOWN));
    note(js->begin_later(token, 200, &broken, 1, JSK_UNKNOWN));
    note(js->begin_later(token, 200, NULL, 0, 5));
    note(js->begin_later(token, 200, NULL, 0, 5));
    note(js->finish(token, 200, "never seen", 10));
    note(js->write_later(token, "abc", 3));
    note(js->write_later(token, NULL, 3));
    note(js->write_later(token, "def", 3));
    note(js->write_later(token, "", 0));
    note(js->write_later(token, "de", 2));
    note(js->end_later(token));
    note(js->end_later(token));
    note(js->write_later(token, "f", 1));
    note(js->begin_later(token, 200, NULL, 0, JSK_UNKNOWN));
    note(js->end_later(token + 1000));
    /* The response has ended, so what has begun is given up. */
    while (js->write_later(token, "g", 1) == 0)
        usleep(1000);
    count(&ended_count);
    free(body);
    return NULL;
}

static int misuse_in_handler(const jsk_api *js, jsk_request *r) {
    results_size = 0;
    note(js->write(r, "x", 1));
    note(js->end(r));
    note(js->when_sent(r, continue_body, NULL));
    note(js->begin(r, 99, JSK_UNKNOWN));
    note(js->begin(NULL, 200, JSK_UNKNOWN));
    note(js->begin(r, 200, 5));
    note(js->begin(r, 200, JSK_UNKNOWN));
    note(js->respond(r, 200, "never seen", 10));
    note(js->header(r, "X-Late", "yes"));
    note(js->defer(r, 1000, NULL, NULL) == 0 ? -1 : 0);
    note(js->write(r, "abc", 3));
    note(js->write(r, "def", 3));
    note(js->write(r, NULL, 3));
    note(js->write(r, "de", 2));
    note(js->end(r));
    note(js->end(r));
    note(js->write(r, "f", 1));
    note(js->after(r, 1, continue_body, NULL));
    return 0;
}

/* The thread of the worker by a token: nothing waits. */
static int on_worker(const jsk_api *js, jsk_request *r) {
    struct body *body = body_of(js, r);
    size_t size;
    uint64_t token = js->defer(r, 60000, NULL, NULL);
    int result = js->begin_later(token, 200, NULL, 0, body->known);
    while (result == 0 && body->left > 0) {
        const char *part = next_part(body, &size);
        result = js->write_later(token, part, size);
    }
    free(body);
    return result != 0 ? result : js->end_later(token);
}

static int at_once(const jsk_api *js, jsk_request *r) {
    js->header(r, "ETag", "\"p1\"");
    js->begin(r, (int)number(js, r, "status", 200), JSK_UNKNOWN);
    js->write(r, "ab", 2);
    js->write(r, "c", 1);
    return js->end(r);
}

int jsk_start(const jsk_api *js, void **state) {
    (void)js;
    *state = NULL;
    for (size_t index = 0; index < sizeof bytes_of_body; index++)
        bytes_of_body[index] = (char)(index % PERIOD);
    return 0;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    if (is(path, "/parts")) {
        struct body *body = body_of(js, r);
        js->header(r, "ETag", "\"p1\"");
        js->begin(r, 200, body->known);
        return continue_body(js, r, body);
    }
    if (is(path, "/thread"))
        return in_thread(js, r, write_body);
    if (is(path, "/worker"))
        return on_worker(js, r);
    if (is(path, "/once"))
        return at_once(js, r);
    if (is(path, "/short")) {
        js->begin(r, 200, 10);
        js->write(r, "12345", 5);
        return js->end(r) == -1 ? 0 : 1;
    }
    if (is(path, "/misuse"))
        return misuse_in_handler(js, r);
    if (is(path, "/misuse-thread"))
        return in_thread(js, r, misuse);
    if (is(path, "/results"))
        return js->respond(r, 200, results, results_size);
    if (is(path, "/written"))
        return js->printf(r, 200, "%llu",
                          (unsigned long long)__atomic_load_n(&written_count, __ATOMIC_SEQ_CST));
    return js->printf(r, 200, "%d %d", get(&gone_count), get(&ended_count));
}
