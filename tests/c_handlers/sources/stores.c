/* The functions of a store, by the path; keys and values are those of the query. */
#include <inttypes.h>
#include <jissoku.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jsk_store *shop;

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static int64_t number(const jsk_api *js, jsk_request *r, const char *name, int64_t otherwise) {
    jsk_str value = js->query(r, name);
    char digits[24] = "";
    if (value.ptr == NULL)
        return otherwise;
    memcpy(digits, value.ptr, value.len < 23 ? value.len : 23);
    return strtoll(digits, NULL, 10);
}

/* Shows what a function of a store has returned. */
static int show(const jsk_api *js, jsk_request *r, int result) {
    jsk_str why = js->store_error();
    if (result >= 0)
        return js->printf(r, 200, "%d", result);
    return js->printf(r, 400, "%d: %.*s", result, JSK_ARG(why));
}

struct text {
    char bytes[4096];
    size_t size;
    const jsk_api *js;
    int left;
};

static int append(void *argument, jsk_str key, jsk_str value) {
    struct text *text = argument;
    text->size += (size_t)snprintf(text->bytes + text->size, sizeof text->bytes - text->size,
                                   "%.*s=%.*s\n", JSK_ARG(key), JSK_ARG(value));
    /* Within a scan the store may be read and written. */
    if (text->js->store_put(shop, jsk_text("last"), key, 0) != 0)
        return 99;
    return --text->left == 0 ? 7 : 0;
}

static int scan(const jsk_api *js, jsk_request *r) {
    static struct text text;
    text.size = 0;
    text.js = js;
    text.left = (int)number(js, r, "count", -1);
    int result = js->store_scan(shop, js->query(r, "k"), append, &text);
    if (result < 0)
        return show(js, r, result);
    return js->printf(r, 200, "%.*s%d", (int)text.size, text.bytes, result);
}

/* Writes each letter of k as a key, with the value v; a capital letter removes its key. */
static int put_many(const jsk_api *js, jsk_request *r, jsk_str keys, jsk_str value, int64_t ttl) {
    jsk_entry entries[32] = {{{0}}};
    char names[32];
    size_t count = keys.len < 32 ? keys.len : 32;
    for (size_t i = 0; i < count; i++) {
        names[i] = (char)(keys.ptr[i] | 0x20);
        entries[i].key = (jsk_str){names + i, keys.ptr[i] == '-' ? 0 : 1};
        entries[i].value = value;
        entries[i].is_removed = names[i] != keys.ptr[i];
    }
    return show(js, r, js->store_put_many(shop, entries, count, ttl));
}

struct task {
    const jsk_api *js;
    uint64_t token;
};

static void *work(void *argument) {
    struct task *task = argument;
    const jsk_api *js = task->js;
    char value[8], body[64];
    size_t size = sizeof value;
    int64_t sum = 0;
    int found = js->store_read(shop, jsk_text("a"), value, &size);
    int counted = js->store_increment(shop, jsk_text("threads"), 1, 0, &sum);
    int length = snprintf(body, sizeof body, "%d %zu %.*s %d %" PRId64, found, size,
                          (int)(found == 1 && size < 8 ? size : 0), value, counted, sum);
    js->finish(task->token, 200, body, (size_t)length);
    free(task);
    return NULL;
}

static int in_thread(const jsk_api *js, jsk_request *r) {
    pthread_t thread;
    struct task *task = malloc(sizeof *task);
    *task = (struct task){js, js->defer(r, 60000, NULL, NULL)};
    pthread_create(&thread, NULL, work, task);
    pthread_detach(thread);
    return 0;
}

/* What is invalid, each with its code. */
static int wrong(const jsk_api *js, jsk_request *r) {
    jsk_str key = jsk_text("a"), value, absent = {NULL, 0}, broken = {NULL, 3};
    jsk_store *other = shop;
    char text[400];
    jsk_entry entries[2] = {{key, key, 0}, {key, broken, 0}};
    int codes[12];
    codes[0] = js->store_put(NULL, key, key, 0);
    codes[1] = js->store_put(shop, absent, key, 0);
    codes[2] = js->store_put(shop, key, broken, 0);
    codes[3] = js->store_get(shop, NULL, key, &value);
    codes[4] = js->store_read(shop, key, NULL, NULL);
    codes[5] = js->store_scan(shop, absent, NULL, NULL);
    codes[6] = js->store_open("no-such-store", &other);
    codes[7] = js->store_put_many(NULL, entries, 1, 0);
    codes[8] = js->store_put_many(shop, NULL, 1, 0);
    codes[9] = js->store_put_many(shop, NULL, 0, 0);
    codes[10] = js->store_put_many(shop, entries, 2, 0);
    jsk_str why = js->store_error();
    size_t size = (size_t)snprintf(text, sizeof text, "%.*s\n", JSK_ARG(why));
    codes[11] = js->store_open("../x", NULL);
    why = js->store_error();
    for (int i = 0; i < 12; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%d ", codes[i]);
    return js->printf(r, 200, "%.*s%d\n%.*s", (int)size, text, other == NULL, JSK_ARG(why));
}

int jsk_start(const jsk_api *js, void **state) {
    *state = NULL;
    if (js->store_open("shop", &shop) == 0)
        return 0;
    fprintf(stderr, "%.*s\n", JSK_ARG(js->store_error()));
    return 1;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r), key = js->query(r, "k"), value = js->query(r, "v");
    int64_t ttl = number(js, r, "ttl", 0), sum = 0;
    if (is(path, "/get")) {
        int found = js->store_get(shop, r, key, &value);
        if (found != 1)
            return found < 0 ? show(js, r, found) : js->printf(r, 404, "none");
        return js->respond(r, 200, value.ptr, value.len);
    }
    if (is(path, "/put"))
        return show(js, r, js->store_put(shop, key, js->method(r).len == 4 ? js->body(r) : value, ttl));
    if (is(path, "/put-many"))
        return put_many(js, r, key, js->method(r).len == 4 ? js->body(r) : value, ttl);
    if (is(path, "/put-if-absent"))
        return show(js, r, js->store_put_if_absent(shop, key, value, ttl));
    if (is(path, "/swap"))
        return show(js, r, js->store_swap(shop, key, js->query(r, "old"), value, ttl));
    if (is(path, "/delete"))
        return show(js, r, js->store_delete(shop, key));
    if (is(path, "/increment")) {
        int result = js->store_increment(shop, key, number(js, r, "by", 1), ttl, &sum);
        return result < 0 ? show(js, r, result) : js->printf(r, 200, "%" PRId64, sum);
    }
    if (is(path, "/scan"))
        return scan(js, r);
    if (is(path, "/thread"))
        return in_thread(js, r);
    return wrong(js, r);
}
