/* Bodies by parts that are paused: by the handler for a time, until another request comes, or until a
 * thread has taken what it was given. The path says which. */
#include <jissoku.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a thread is given at once, before the body is paused. */
#define QUEUE_MAX (128 * 1024)

struct upload {
    const jsk_api *js;
    unsigned long long size, sum;
    int pauses, is_paused;
    /* What the thread has not taken yet, and the token of a body that waits for it. */
    char *queue;
    size_t queued;
    uint64_t token;
    int has_thread, has_ended;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static int open_count, gone_count, early_count;
static uint64_t held_token;
static struct upload *held;

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static unsigned long long sum_of(const char *bytes, size_t size) {
    unsigned long long sum = 0;
    for (size_t index = 0; index < size; index++)
        sum += (unsigned char)bytes[index];
    return sum;
}

static void end(void *argument) {
    struct upload *upload = argument;
    if (upload->has_thread) {
        pthread_mutex_lock(&upload->lock);
        upload->has_ended = 1;
        pthread_cond_signal(&upload->changed);
        pthread_mutex_unlock(&upload->lock);
        pthread_join(upload->thread, NULL);
        free(upload->queue);
    }
    if (held == upload)
        held = NULL;
    open_count--;
    free(upload);
}

static struct upload *upload_of(const jsk_api *js, jsk_request *r) {
    struct upload *upload = js->data(r);
    if (upload == NULL) {
        upload = calloc(1, sizeof *upload);
        upload->js = js;
        pthread_mutex_init(&upload->lock, NULL);
        pthread_cond_init(&upload->changed, NULL);
        open_count++;
        js->set_data(r, upload, end);
    }
    return upload;
}

/* Takes what is queued, slowly, and has the body go on. */
static void *take(void *argument) {
    struct upload *upload = argument;
    pthread_mutex_lock(&upload->lock);
    while (upload->queued > 0 || !upload->has_ended) {
        if (upload->queued == 0) {
            pthread_cond_wait(&upload->changed, &upload->lock);
            continue;
        }
        upload->sum += sum_of(upload->queue, upload->queued);
        upload->queued = 0;
        if (upload->token != 0)
            upload->js->resume_body(upload->token);
        upload->token = 0;
        pthread_mutex_unlock(&upload->lock);
        usleep(1000);
        pthread_mutex_lock(&upload->lock);
    }
    pthread_mutex_unlock(&upload->lock);
    return NULL;
}

static int queue(const jsk_api *js, jsk_request *r, struct upload *upload, jsk_str part) {
    int result = 0;
    if (!upload->has_thread) {
        upload->queue = malloc(2 * QUEUE_MAX);
        upload->has_thread = pthread_create(&upload->thread, NULL, take, upload) == 0;
    }
    pthread_mutex_lock(&upload->lock);
    if (upload->queued + part.len > 2 * QUEUE_MAX) {
        result = 9;
    } else {
        memcpy(upload->queue + upload->queued, part.ptr, part.len);
        upload->queued += part.len;
        if (upload->queued >= QUEUE_MAX) {
            upload->token = js->pause_body(r, 60000, NULL, NULL);
            upload->pauses++;
        }
    }
    pthread_cond_signal(&upload->changed);
    pthread_mutex_unlock(&upload->lock);
    return result;
}

static int go_on(const jsk_api *js, jsk_request *r, void *argument) {
    struct upload *upload = argument;
    if (r == NULL) {
        gone_count++;
        return 0;
    }
    upload->is_paused = 0;
    if (is(js->path(r), "/late"))
        return js->printf(r, 503, "too late");
    if (is(js->path(r), "/fails"))
        return 5;
    if (is(js->path(r), "/again") && ++upload->pauses % 3 != 0) {
        upload->is_paused = 1;
        return js->pause_body(r, 1, go_on, upload) == 0;
    }
    return 0;
}

/* Each wrong use has no effect; returns how many have one. */
static int misuse(const jsk_api *js, jsk_request *r, struct upload *upload) {
    return (js->pause_body(NULL, 1, go_on, upload) != 0) + (js->pause_body(r, 1, NULL, NULL) != 0) +
           (js->after(r, 1, go_on, upload) == 0) + (js->defer(r, 1, NULL, NULL) != 0) +
           (js->begin(r, 200, JSK_UNKNOWN) == 0);
}

int jsk_body(const jsk_api *js, jsk_request *r, jsk_str part) {
    jsk_str path = js->path(r);
    struct upload *upload = upload_of(js, r);
    uint64_t token;
    upload->size += part.len;
    early_count += upload->is_paused;
    if (is(path, "/thread"))
        return queue(js, r, upload, part);
    upload->sum += sum_of(part.ptr, part.len);
    if (is(path, "/for-a-time"))
        return js->pause_body(r, 2, NULL, NULL) == 0;
    if (is(path, "/at-once")) {
        token = js->pause_body(r, 60000, NULL, NULL);
        return token == 0 || js->resume_body(token) != 0 || js->resume_body(token) != 0;
    }
    if (is(path, "/responds")) {
        js->pause_body(r, 60000, go_on, upload);
        return js->printf(r, 413, "too much");
    }
    token = js->pause_body(r, is(path, "/held") ? 600000 : 20, go_on, upload);
    upload->is_paused = token != 0;
    if (is(path, "/held")) {
        held_token = token;
        held = upload;
    }
    return is(path, "/misuse") ? misuse(js, r, upload) : 0;
}

/* Kibibytes that the worker has in memory. */
static long resident(void) {
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    struct upload *upload;
    jsk_str path = js->path(r);
    if (is(path, "/counts"))
        return js->printf(r, 200, "%d %d %d", open_count, gone_count, early_count);
    if (is(path, "/memory"))
        return js->printf(r, 200, "%ld %llu", resident(), held == NULL ? 0 : held->size);
    if (is(path, "/resume")) {
        js->resume_body(held_token);
        return js->printf(r, 200, "%d", js->pause_body(r, 1, NULL, NULL) != 0);
    }
    upload = upload_of(js, r);
    if (upload->has_thread) {
        pthread_mutex_lock(&upload->lock);
        while (upload->queued > 0) {
            pthread_mutex_unlock(&upload->lock);
            usleep(1000);
            pthread_mutex_lock(&upload->lock);
        }
        pthread_mutex_unlock(&upload->lock);
    }
    return js->printf(r, 200, "%llu %llu", upload->size, upload->sum);
}
