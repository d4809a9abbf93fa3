/* Bodies by parts: their size and the sum of their bytes, without keeping them. */
#include <jissoku.h>
#include <stdlib.h>
#include <string.h>

static int open_count;

struct upload {
    unsigned long long size, sum;
};

static int is(jsk_str text, const char *expected) {
    return text.len == strlen(expected) && memcmp(text.ptr, expected, text.len) == 0;
}

static void end(void *upload) {
    open_count--;
    free(upload);
}

static struct upload *upload_of(const jsk_api *js, jsk_request *r) {
    struct upload *upload = js->data(r);
    if (upload == NULL) {
        upload = calloc(1, sizeof *upload);
        open_count++;
        js->set_data(r, upload, end);
    }
    return upload;
}

static int never(const jsk_api *js, jsk_request *r, void *argument) {
    (void)argument;
    return r == NULL ? 0 : js->printf(r, 200, "never seen");
}

int jsk_body(const jsk_api *js, jsk_request *r, jsk_str part) {
    jsk_str path = js->path(r);
    struct upload *upload = upload_of(js, r);
    upload->size += part.len;
    for (size_t index = 0; index < part.len; index++)
        upload->sum += (unsigned char)part.ptr[index];
    if (is(path, "/fails"))
        return 7;
    if (is(path, "/waits"))
        return js->after(r, 1, never, NULL);
    if (is(path, "/begins"))
        return js->begin(r, 200, JSK_UNKNOWN);
    if (is(path, "/refuses") && upload->size > 1000)
        return js->printf(r, 413, "too much");
    return 0;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    struct upload *upload;
    if (is(js->path(r), "/open"))
        return js->printf(r, 200, "%d", open_count);
    upload = upload_of(js, r);
    return js->printf(r, 200, "%llu %llu %zu", upload->size, upload->sum, js->body(r).len);
}
