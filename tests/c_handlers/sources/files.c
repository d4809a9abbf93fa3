/* Files as bodies, and descriptors that are none. The query says which file, and which part of it. */
#include <dirent.h>
#include <fcntl.h>
#include <jissoku.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static void copy(jsk_str text, char *to, size_t room) {
    size_t size = text.len < room - 1 ? text.len : room - 1;
    memcpy(to, text.ptr, size);
    to[size] = 0;
}

/* A number of the query, or `otherwise`. */
static uint64_t number(const jsk_api *js, jsk_request *r, const char *name, uint64_t otherwise) {
    jsk_str value = js->query(r, name);
    char digits[24];
    if (value.ptr == NULL)
        return otherwise;
    copy(value, digits, sizeof digits);
    return strtoull(digits, NULL, 10);
}

static int count_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static int open_of(const jsk_api *js, jsk_request *r, int flags) {
    char name[4096];
    copy(js->query(r, "name"), name, sizeof name);
    return open(name, flags);
}

static int refused(const jsk_api *js, jsk_request *r) {
    int pipes[2], results[7];
    char text[64];
    if (pipe(pipes) != 0)
        return 1;
    results[0] = js->send_file(r, 200, -1, 0, JSK_REST);
    results[1] = js->send_file(r, 200, 9999, 0, JSK_REST);
    results[2] = js->send_file(r, 200, pipes[0], 0, JSK_REST);
    results[3] = js->send_file(r, 200, open_of(js, r, O_WRONLY), 0, JSK_REST);
    results[4] = js->send_file(r, 200, open("/tmp", O_RDONLY), 0, JSK_REST);
    results[5] = js->send_file(r, 99, open_of(js, r, O_RDONLY), 0, JSK_REST);
    results[6] = js->send_file(NULL, 200, open_of(js, r, O_RDONLY), 0, JSK_REST);
    close(pipes[1]);
    for (int index = 0; index < 7; index++)
        snprintf(text + 3 * index, sizeof text - 3 * index, "%d ", results[index]);
    return js->respond(r, 200, text, strlen(text));
}

static int later(const jsk_api *js, jsk_request *r, void *argument) {
    (void)argument;
    return r == NULL ? 0 : js->send_file(r, 200, open_of(js, r, O_RDONLY), 0, JSK_REST);
}

/* A response that a thread gives: a part of a file, or a body that is lent. */
struct task {
    const jsk_api *js;
    uint64_t token, start, size;
    int descriptor, ms;
    char *bytes;
};

static int released_count;

static void release(void *bytes) {
    free(bytes);
    __atomic_fetch_add(&released_count, 1, __ATOMIC_SEQ_CST);
}

static jsk_str filled(uint64_t size) {
    jsk_str bytes = {memset(malloc(size + 1), 'o', size), size};
    return bytes;
}

/* What is refused is closed or released. */
static void refuse(const struct task *task, const jsk_field *fields) {
    const jsk_api *js = task->js;
    jsk_str bytes[3] = {filled(5), filled(5), {NULL, 5}};
    int results = 0;
    results += js->finish_file(task->token, 200, fields, 1, -1, 0, JSK_REST);
    results += js->finish_file(task->token, 99, fields, 1, dup(task->descriptor), 0, 1);
    results += js->finish_file(task->token, 200, fields, 2, dup(task->descriptor), 0, 1);
    results += js->finish_file(task->token, 200, fields, 1, open("/tmp", O_RDONLY), 0, JSK_REST);
    results += js->finish_owned(task->token, 99, fields, 1, bytes[0], release, (void *)bytes[0].ptr);
    results += js->finish_owned(task->token, 200, fields, 2, bytes[1], release, (void *)bytes[1].ptr);
    results += js->finish_owned(task->token, 200, fields, 1, bytes[2], release, NULL);
    if (results != -7)
        abort();
}

static void *work(void *argument) {
    struct task *task = argument;
    const jsk_api *js = task->js;
    jsk_field fields[] = {{"X-Thread", "yes"}, {"A", "b\r\nC: d"}};
    usleep((useconds_t)task->ms * 1000);
    refuse(task, fields);
    if (task->bytes != NULL) {
        jsk_str bytes = {task->bytes, task->size}, second = filled(5);
        js->finish_owned(task->token, 200, fields, 1, bytes, release, task->bytes);
        js->finish_owned(task->token, 200, fields, 1, second, release, (void *)second.ptr);
    } else {
        int second = dup(task->descriptor);
        if (js->finish_file(task->token, 200, fields, 1, task->descriptor, task->start, task->size) != 0)
            js->finish(task->token, 416, "there are fewer bytes", 21);
        js->finish_file(task->token, 200, fields, 1, second, 0, JSK_REST);
    }
    free(task);
    return NULL;
}

static int in_thread(const jsk_api *js, jsk_request *r, int is_lent) {
    pthread_t thread;
    struct task *task = calloc(1, sizeof *task);
    *task = (struct task){js, 0, number(js, r, "start", 0), number(js, r, "size", JSK_REST), -1,
                          (int)number(js, r, "ms", 0), NULL};
    if (is_lent)
        task->bytes = (char *)filled(task->size).ptr;
    else
        task->descriptor = open_of(js, r, O_RDONLY);
    task->token = js->defer(r, 60000, NULL, NULL);
    pthread_create(&thread, NULL, work, task);
    pthread_detach(thread);
    return 0;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    if (is(path, "/descriptors"))
        return js->printf(r, 200, "%d", count_descriptors());
    if (is(path, "/released"))
        return js->printf(r, 200, "%d", __atomic_load_n(&released_count, __ATOMIC_SEQ_CST));
    if (is(path, "/thread") || is(path, "/lent"))
        return in_thread(js, r, is(path, "/lent"));
    if (is(path, "/refused"))
        return refused(js, r);
    if (is(path, "/later"))
        return js->after(r, 1, later, NULL);
    if (is(path, "/shrinks")) {
        int descriptor = open_of(js, r, O_RDWR);
        int result = js->send_file(r, 200, descriptor, 0, JSK_REST);
        return ftruncate(descriptor, 1) != 0 ? 1 : result;
    }
    if (is(path, "/twice")) {
        js->send_file(r, 200, open_of(js, r, O_RDONLY), 0, 3);
        js->send_file(r, 200, open_of(js, r, O_RDONLY), 3, 3);
        return js->printf(r, 200, "never seen") == -1 ? 0 : 1;
    }
    if (is(path, "/failed")) {
        js->send_file(r, 200, open_of(js, r, O_RDONLY), 0, JSK_REST);
        return 1;
    }
    js->header(r, "ETag", "\"f1\"");
    if (js->send_file(r, (int)number(js, r, "status", 200), open_of(js, r, O_RDONLY),
                      number(js, r, "start", 0), number(js, r, "size", JSK_REST)) != 0)
        return js->printf(r, 416, "there are fewer bytes");
    return 0;
}
