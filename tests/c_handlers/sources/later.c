/* Responses that are given later: by a timer, by a thread, twice, after the client has left, or never. */
#include <jissoku.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int gone_count;

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static int number(const jsk_api *js, jsk_request *r, const char *name) {
    jsk_str value = js->query(r, name);
    char digits[16] = "";
    memcpy(digits, value.ptr, value.len < 15 ? value.len : 15);
    return atoi(digits);
}

struct countdown {
    int left;
};

static int count_down(const jsk_api *js, jsk_request *r, void *argument) {
    struct countdown *countdown = argument;
    int left = --countdown->left;
    if (r != NULL && left > 0)
        return js->after(r, 10, count_down, countdown);
    free(countdown);
    if (r == NULL) {
        gone_count++;
        return 0;
    }
    return js->printf(r, 200, "counted");
}

struct task {
    const jsk_api *js;
    uint64_t token;
    int ms, times;
    /* Whether it has fields of its own. */
    int has_fields;
};

static void *work(void *argument) {
    struct task *task = argument;
    usleep((useconds_t)task->ms * 1000);
    for (int time = 0; time < task->times; time++) {
        char text[32];
        int size = snprintf(text, sizeof text, "%s %d", "finished", time);
        const jsk_api *js = task->js;
        if (task->has_fields) {
            jsk_field fields[] = {{"X-Time", text}, {"ETag", "\"late\""}, {"A", "b\r\nC: d"}};
            if (js->finish_with(task->token, 200, fields, 3, "never seen", 10) != -1)
                abort();
            if (js->finish_with(task->token, 99, fields, 2, "never seen", 10) != -1)
                abort();
            js->finish_with(task->token, 200, fields, 2, text, (size_t)size);
        } else {
            js->finish(task->token, 201, text, (size_t)size);
        }
    }
    free(task);
    return NULL;
}

static void on_gone(void *argument) {
    gone_count += *(int *)argument;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    static int one = 1;
    if (is(path, "/after")) {
        struct countdown *countdown = malloc(sizeof *countdown);
        countdown->left = number(js, r, "n");
        return js->after(r, 10, count_down, countdown);
    }
    if (is(path, "/thread") || is(path, "/fields")) {
        pthread_t thread;
        struct task *task = malloc(sizeof *task);
        js->header(r, "X-Field", "early");
        *task = (struct task){js, js->defer(r, 60000, on_gone, &one), number(js, r, "ms"), 2,
                              is(path, "/fields")};
        pthread_create(&thread, NULL, work, task);
        pthread_detach(thread);
        return 0;
    }
    if (is(path, "/never"))
        return js->defer(r, 100, on_gone, &one) == 0;
    if (is(path, "/both")) {
        js->defer(r, 60000, on_gone, &one);
        return js->printf(r, 200, "at once");
    }
    if (is(path, "/crash")) {
        pthread_t thread;
        pthread_create(&thread, NULL, (void *(*)(void *))abort, NULL);
        return js->defer(r, 60000, NULL, NULL) == 0;
    }
    return js->printf(r, 200, "%d", gone_count);
}
