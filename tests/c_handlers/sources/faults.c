/* Faults that a sanitizer has to find, by the path. */
#include <jissoku.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *kept;
static int count;

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static void *count_up(void *argument) {
    count++;
    return argument;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r), text = js->query(r, "t");
    if (is(path, "/overflow")) {
        volatile char *bytes = malloc(text.len);
        bytes[text.len] = 1;
    }
    if (is(path, "/past-the-end"))
        return js->printf(r, 200, "%d", ((const volatile char *)text.ptr)[text.len]);
    if (is(path, "/keep"))
        kept = text.ptr;
    if (is(path, "/kept"))
        return js->printf(r, 200, "%d", *(const volatile char *)kept);
    if (is(path, "/sum")) {
        volatile int sum = INT_MAX;
        sum = sum + (int)text.len;
    }
    if (is(path, "/race")) {
        pthread_t thread;
        pthread_create(&thread, NULL, count_up, NULL);
        pthread_detach(thread);
    }
    return js->printf(r, 200, "%d", count);
}
