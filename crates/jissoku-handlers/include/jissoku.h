/* jissoku.h: the interface of handlers in C for `jissoku serve hello.c`.
 *
 *     #include <jissoku.h>
 *
 *     int jsk_handle(const jsk_api *js, jsk_request *r) {
 *         jsk_str name = js->query(r, "name");
 *         js->header(r, "Content-Type", "text/plain");
 *         return js->printf(r, 200, "Hello, %.*s!", JSK_ARG(name));
 *     }
 *
 * C99 and C++, without a library. Version 1 stays compatible: functions are added at the end of
 * jsk_api, and never removed or changed. A handler that uses a function that older servers do not
 * have asks JSK_HAS(js, NAME) first.
 */
#ifndef JISSOKU_H
#define JISSOKU_H 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define JSK_EXPORT __attribute__((visibility("default")))
#define JSK_WEAK __attribute__((weak, visibility("default")))
#define JSK_FORMAT(at, first) __attribute__((format(__printf__, at, first)))
#else
#define JSK_EXPORT
#define JSK_WEAK
#define JSK_FORMAT(at, first)
#endif

/* The version of this interface. */
#define JSK_ABI 1

/* The version that a shared object is compiled for; the server reads it before anything else. */
JSK_WEAK uint32_t jsk_abi = JSK_ABI;

/* Bytes that end with no zero, and may contain one. What is absent is {NULL, 0}. */
typedef struct jsk_str {
    const char *ptr;
    size_t len;
} jsk_str;

/* A header field of a response. */
typedef struct jsk_field {
    const char *name;
    const char *value;
} jsk_field;

/* The arguments for "%.*s" of a variable of type jsk_str. */
#define JSK_ARG(string) (int)(string).len, (string).ptr

/* A text that ends with a zero as a jsk_str. */
static inline jsk_str jsk_text(const char *text) {
    jsk_str string = {text, 0};
    while (text[string.len] != 0)
        string.len++;
    return string;
}

/* A request and its response. It is valid until jsk_handle returns, and so is all that the functions
 * below return of it. */
typedef struct jsk_request jsk_request;

/* A store, whose entries all workers see; open until the worker ends. */
typedef struct jsk_store jsk_store;

/* What a function of a store returns if it fails. */
enum {
    JSK_STORE_INVALID = -1, /* An argument, such as a key that is too long. */
    JSK_STORE_FULL = -2,    /* There is no room for the write. */
    JSK_STORE_NUMBER = -3,  /* The value or the sum is not a whole number of 64 bits. */
    JSK_STORE_MISSING = -4, /* There is no store of this name. */
    JSK_STORE_FAILED = -5   /* The system, or the file of the store. */
};

/* The time to live of an entry that does not expire. */
#define JSK_TTL_NEVER (-1)

/* What store_put_many does with a key: `{key, value, 0}` writes its value. */
typedef struct jsk_entry {
    jsk_str key;
    jsk_str value;
    int is_removed; /* 1: the key is removed, and the value not used */
} jsk_entry;

/* Is called with a name and a value; another result than 0 ends the iteration. */
typedef int jsk_visit(void *argument, jsk_str name, jsk_str value);

/* Kinds of charts: a line through values; bars from zero; how many values are in each of several
 * ranges; a line without axes, as small as a word; the shares of values in their sum. */
enum { JSK_LINE = 1, JSK_BAR, JSK_HISTOGRAM, JSK_SPARKLINE, JSK_RING };

/* Numbers with a name in the legend. NAN, and what is beyond 1e300, is absent. */
typedef struct jsk_series {
    const char *name; /* NULL: its number */
    const double *values;
    size_t count;
} jsk_series;

/* A chart. What is 0 or NULL is as if it were not there, so that `jsk_chart chart = {0};` is the
 * beginning. Texts are plain text in UTF-8 of up to 1,000 bytes, and are escaped. */
typedef struct jsk_chart {
    const char *title;
    const char *description; /* for those who do not see it; NULL: made of the values */
    const char *unit;        /* what the values are, such as "requests per second" */
    const char *x_title;     /* what the other axis is */
    const jsk_series *series; /* up to 16; JSK_HISTOGRAM, JSK_SPARKLINE and JSK_RING have one */
    size_t series_count;
    /* Names of the bars (up to 400), or of the parts of the ring (up to 12): as many as values. Of a
     * line, any number of texts at equal distances below it, in place of numbers. */
    const char *const *labels;
    size_t label_count;
    /* Where the values of a line are, ascending: as many as the longest series has. NULL: 0, 1, 2... */
    const double *positions;
    /* What the axis of the values contains at least, if these two differ. */
    double reach_low, reach_high;
    uint32_t bins;          /* ranges of a histogram, up to 200; 0: as many as its values suggest */
    uint32_t width, height; /* pixels, up to 4,096; 0: as the kind has it */
} jsk_chart;

/* Continues a request; see `after`. */
typedef struct jsk_api jsk_api;
typedef int jsk_resume(const jsk_api *js, jsk_request *r, void *argument);

/* The functions of the server. They belong to the thread that calls jsk_handle. */
struct jsk_api {
    /* The size of this struct in the server. */
    size_t size;
    /* JSK_ABI of the server. */
    uint32_t version;

    /* ---- The request ---- */

    /* GET, POST, another token. Names of methods are case-sensitive. */
    jsk_str (*method)(jsk_request *r);
    /* The path and the query as they were received. */
    jsk_str (*target)(jsk_request *r);
    /* The path, decoded, without "." and ".." segments. It begins with a slash, or is "*". */
    jsk_str (*path)(jsk_request *r);
    /* The query as it was received, without its question mark. */
    jsk_str (*query_string)(jsk_request *r);
    /* The first query parameter of this name, decoded. */
    jsk_str (*query)(jsk_request *r, const char *name);
    /* The first parameter of this name of a body that is a form (application/x-www-form-urlencoded),
     * decoded. */
    jsk_str (*form)(jsk_request *r, const char *name);
    /* The value of the first header field of this name, in any case. */
    jsk_str (*field)(jsk_request *r, const char *name);
    /* Calls `visit` with all header fields in their order. Returns 0, or the result that has ended it. */
    int (*each_field)(jsk_request *r, jsk_visit *visit, void *argument);
    /* The same with all query parameters, decoded. */
    int (*each_query)(jsk_request *r, jsk_visit *visit, void *argument);
    /* The whole body, without its transfer coding; empty in a handler that defines jsk_body. */
    jsk_str (*body)(jsk_request *r);
    /* The address of the client as text, without its port; absent over a Unix socket. */
    jsk_str (*client)(jsk_request *r);
    /* "http" or "https". */
    jsk_str (*scheme)(jsk_request *r);
    /* "HTTP/1.0" or "HTTP/1.1". */
    jsk_str (*http_version)(jsk_request *r);
    /* What jsk_start has set for this worker. */
    void *(*state)(jsk_request *r);

    /* ---- The response ----
     *
     * One call of `respond`, `respond_owned`, `printf` or `send_file` responds. These functions return
     * 0, or -1 if they have had no effect: a status that is not from 200 to 599, a second response, a
     * field that is not valid or belongs to the server. The server adds Date, Content-Length and
     * Connection, sends no body for HEAD, and 304 in place of 200 for an ETag that the client has. */

    /* Adds a header field. Fields of the connection and Content-Length are the server's. */
    int (*header)(jsk_request *r, const char *name, const char *value);
    /* The same with a value that ends with no zero. */
    int (*header_str)(jsk_request *r, const char *name, jsk_str value);
    /* Responds with a copy of `size` bytes: for small bodies, and those that do not stay. */
    int (*respond)(jsk_request *r, int status, const void *body, size_t size);
    /* Responds with `size` bytes that stay where they are until `release(argument)` is called: when
     * they are sent or not needed any more, once, also if -1 is returned. NULL: they stay for ever. For
     * large bodies, of more than 16 KiB: a smaller one is cheaper to copy, by `respond`. */
    int (*respond_owned)(jsk_request *r, int status, const void *body, size_t size,
                         void (*release)(void *argument), void *argument);
    /* Responds with a formatted text. */
    int (*printf)(jsk_request *r, int status, const char *format, ...) JSK_FORMAT(3, 4);

    /* ---- Helpers: what they return is valid as long as the request ---- */

    /* The text with & < > " ' as character references: for the content and the quoted attributes of
     * HTML. */
    jsk_str (*escape_html)(jsk_request *r, jsk_str text);
    /* The text as a string of JSON, with its quotation marks. Bytes that are not UTF-8 become U+FFFD. */
    jsk_str (*escape_json)(jsk_request *r, jsk_str text);
    /* The text as a segment of a path or a value of a query: all but letters, digits and -._~ is %XX. */
    jsk_str (*escape_url)(jsk_request *r, jsk_str text);
    /* Seconds since 1970 as a date of HTTP: Sun, 06 Nov 1994 08:49:37 GMT */
    jsk_str (*http_date)(jsk_request *r, uint64_t unix_s);
    /* The SHA-256 digest of the text: 32 bytes. */
    jsk_str (*sha256)(jsk_request *r, jsk_str text);
    /* Fills `bytes` with random bytes that cannot be guessed. Returns 0, or -1 if there are none. */
    int (*random)(void *bytes, size_t size);

    /* ---- Routes ---- */

    /* The variable {name} of the path of the route, decoded. */
    jsk_str (*variable)(jsk_request *r, const char *name);

    /* ---- Later responses ----
     *
     * jsk_handle calls one of these and returns 0 without a response: the request and its texts stay,
     * and the worker serves others meanwhile. Fields may be added before. */

    /* After `ms` milliseconds `function` is called as jsk_handle is, on the same thread: it responds,
     * or calls one of these again. If the client has left before, it is called with NULL, to release
     * `argument`. Returns 0, or -1 without an effect. */
    int (*after)(jsk_request *r, uint32_t ms, jsk_resume *function, void *argument);
    /* Returns a token by which any thread responds later, or 0. If there is no response after `ms`
     * milliseconds, or up to a second later, the server responds with 504. `gone(argument)` is called
     * once on the thread of the worker, unless it is NULL, when that happens or the client leaves: a
     * response is not needed then, and has no effect, except for a client that shuts down its side and
     * reads on. */
    uint64_t (*defer)(jsk_request *r, uint32_t ms, void (*gone)(void *argument), void *argument);
    /* Responds with a copy of `size` bytes. Any thread may call it. Only the first call with a token
     * has an effect. Returns 0, or -1 if the status is not from 200 to 599. */
    int (*finish)(uint64_t token, int status, const void *body, size_t size);

    /* ---- Charts ---- */

    /* Draws a chart of up to 100,000 values as SVG, in the light or dark colours of its reader: an
     * image/svg+xml of its own, or an element of an HTML page. The text is valid as long as the
     * request. If something of the chart is not as it is described above, it is absent; `*why`, unless
     * `why` is NULL, is the reason then. */
    jsk_str (*chart)(jsk_request *r, int kind, const jsk_chart *chart, jsk_str *why);

    /* ---- Files ---- */

    /* Responds with `size` bytes from `start` on of a regular file that is open for reading; JSK_REST
     * is all up to its end. The kernel sends them without a copy, except over TLS. The descriptor is
     * the server's from this call on, also if -1 is returned: it is closed when the bytes are sent or
     * not needed any more. Returns -1, too, if the descriptor is not of such a file, or the file has
     * fewer bytes. If the file becomes shorter before all is sent, the connection is closed, so that
     * the client sees that its response is incomplete. */
    int (*send_file)(jsk_request *r, int status, int descriptor, uint64_t start, uint64_t size);

    /* ---- Stores ----
     *
     * Keys have 1 to 500 bytes, values up to 16 MiB. Each call is one transaction. Any thread may call
     * these functions; a write waits while another process or thread writes. They return 0 or more, or
     * a negative JSK_STORE_ code, whose sentence is store_error(). `ttl_ms` is the time to live in
     * milliseconds: 0 is that of the store, JSK_TTL_NEVER none. An entry that has expired is as one
     * that does not exist. */

    /* Sets `*store` to the store of this name, [store.NAME] of the configuration file. Returns 0. */
    int (*store_open)(const char *name, jsk_store **store);
    /* Why the last function of a store has failed on this thread; valid until the next one fails. */
    jsk_str (*store_error)(void);
    /* Sets `*value` to the value of a key, which is valid as long as the request. Returns 1, or 0 if
     * there is none. For the thread of the worker only. */
    int (*store_get)(jsk_store *store, jsk_request *r, jsk_str key, jsk_str *value);
    /* Copies the value of a key to `buffer`, up to its size, which is `*size`, and sets `*size` to the
     * size of the value, which may be more. Returns 1, or 0 if there is none. */
    int (*store_read)(jsk_store *store, jsk_str key, void *buffer, size_t *size);
    /* Writes the value of a key. Returns 0. */
    int (*store_put)(jsk_store *store, jsk_str key, jsk_str value, int64_t ttl_ms);
    /* Writes the value of a key that has none. Returns 1, or 0 if it has one. */
    int (*store_put_if_absent)(jsk_store *store, jsk_str key, jsk_str value, int64_t ttl_ms);
    /* Writes the value of a key that has the value `expected`, or none if that is {NULL, 0}. Returns 1,
     * or 0 if it has another one. */
    int (*store_swap)(jsk_store *store, jsk_str key, jsk_str expected, jsk_str value, int64_t ttl_ms);
    /* Removes a key. Returns 1, or 0 if it had no value. */
    int (*store_delete)(jsk_store *store, jsk_str key);
    /* Adds to the number of a key, which is text in decimal, and sets `*sum` to the sum, unless it is
     * NULL. A key without a value has 0, and gets this time to live; one with a value keeps its time.
     * Returns 0. */
    int (*store_increment)(jsk_store *store, jsk_str key, int64_t by, int64_t ttl_ms, int64_t *sum);
    /* Calls `visit` with the keys that begin so and their values, in the order of their bytes, until it
     * returns another result than 0, which should be positive and is returned; 0 at the end. The texts
     * are valid during the call, which may use the store. Entries that are written meanwhile may be
     * among them. */
    int (*store_scan)(jsk_store *store, jsk_str prefix, jsk_visit *visit, void *argument);

    /* ---- More later responses ---- */

    /* As `finish`, with `count` header fields beside those that the handler has added. Returns -1, too,
     * if a field is not valid or belongs to the server: the token can still be used. */
    int (*finish_with)(uint64_t token, int status, const jsk_field *fields, size_t count,
                       const void *body, size_t size);

    /* ---- Responses in parts ----
     *
     * For bodies that are made while they are sent. After `begin`, parts are written until `end`. Until
     * then each call of jsk_handle, or of what continues it, writes what it has, calls `when_sent` or
     * `after`, and returns 0. These functions return 0, or -1 if they have had no effect. A response
     * that has begun and fails, by a result other than 0 or because it is not continued, ends before it
     * is complete: the connection is closed, so that the client sees that. */

    /* Begins a response with a body of `size` bytes; JSK_UNKNOWN if that is not known yet. Header fields
     * are added before. */
    int (*begin)(jsk_request *r, int status, uint64_t size);
    /* Writes a copy of the next part. It stays in memory until the client reads it. Returns -1, too,
     * if the body has ended or would be longer than it says. */
    int (*write)(jsk_request *r, const void *part, size_t size);
    /* Has `function` called as that of `after` when everything that was written is sent: the response
     * is made no faster than its client reads it. */
    int (*when_sent)(jsk_request *r, jsk_resume *function, void *argument);
    /* Ends the body. Returns -1 if it had ended, or is shorter than it says: the response is incomplete
     * then. */
    int (*end)(jsk_request *r);

    /* The same by the token of `defer`, for any thread, but for one of them at a time. The time of
     * `defer` is then that until the response begins, and between two of its parts. */

    /* Begins a response, with `count` header fields beside those that the handler has added. Returns
     * -1, too, if a field is not valid: the token can still be used; or the response has begun. */
    int (*begin_later)(uint64_t token, int status, const jsk_field *fields, size_t count,
                       uint64_t size);
    /* Writes a copy of the next part. Waits while the client has not read 256 KiB of what was written
     * before, except on the thread of the worker. Returns -1 if the body has ended or would be longer
     * than it says, or because nothing is needed any more: the client has left, or too much time has
     * passed. */
    int (*write_later)(uint64_t token, const void *part, size_t size);
    /* Ends the body. Returns as `end`, and -1 if nothing is needed any more. */
    int (*end_later)(uint64_t token);

    /* ---- What a handler keeps with a request ---- */

    /* Keeps a pointer in place of the one before. `release(data)` is called once, on the thread of the
     * worker, when the response is given or the client has left: unless it is NULL. Returns 0. */
    int (*set_data)(jsk_request *r, void *data,
                    void (*release)(void *data));
    /* The pointer that is kept, or NULL. */
    void *(*data)(jsk_request *r);

    /* ---- Bodies that are received no faster than they are taken ---- */

    /* In jsk_body: nothing more of the body is received, and neither jsk_body nor jsk_handle is called,
     * until a thread calls `resume_body` with the token that this returns, or `ms` milliseconds have
     * passed. `function` is then called as jsk_body is, but without a part, unless it is NULL: it may
     * respond, or pause again. If the client has left before, it is called with NULL, to release
     * `argument`. Meanwhile the client waits: the server keeps what it has received at once with the
     * part, which is less than 100 KiB. Returns 0 without an effect: if it is paused already, or there
     * is a response, and where it is not called for a body. */
    uint64_t (*pause_body)(jsk_request *r, uint32_t ms, jsk_resume *function, void *argument);
    /* Goes on with a body that is paused. Any thread may call it, also before jsk_body returns. Only
     * the first call with a token has an effect. Returns 0, or -1 if the worker has ended. */
    int (*resume_body)(uint64_t token);

    /* ---- Later responses without a copy ---- */

    /* As `finish_with`, with a body that stays where it is until `release(argument)` is called, as that
     * of `respond_owned`: once, on any thread, also if -1 is returned. */
    int (*finish_owned)(uint64_t token, int status, const jsk_field *fields, size_t count,
                        jsk_str body, void (*release)(void *argument), void *argument);
    /* As `finish_with`, with a part of a file, as that of `send_file`: the descriptor is the server's
     * from this call on, also if -1 is returned. */
    int (*finish_file)(uint64_t token, int status, const jsk_field *fields, size_t count,
                       int descriptor, uint64_t start, uint64_t size);

    /* ---- Several writes of a store in one transaction ---- */

    /* Writes and removes `count` entries in their order: all of them, or none if it fails. Others see
     * all of it or nothing. It takes less time than single calls; what else writes waits meanwhile.
     * Returns 0. The sentence of an error names the entry, as in "entries[2]: a key has ...". */
    int (*store_put_many)(jsk_store *store, const jsk_entry *entries, size_t count, int64_t ttl_ms);
};

/* The size of a body that is not known when it begins, for begin and begin_later. */
#define JSK_UNKNOWN ((uint64_t)-1)

/* All bytes up to the end of a file, for send_file. */
#define JSK_REST ((uint64_t)-1)

/* Whether the server has a function. */
#define JSK_HAS(js, name) ((js)->size >= offsetof(jsk_api, name) + sizeof (js)->name)

/* Is defined by a handler: responds to a request. Another result than 0 is 500 in place of the
 * response, and so is 0 without a response. */
JSK_EXPORT int jsk_handle(const jsk_api *js, jsk_request *r);

/* May be defined: takes the body of a request by parts, as they are received, before jsk_handle is
 * called; their bytes are valid during the call. It may respond, but for a response in parts or later:
 * it is sent at once then, the rest of the body is discarded, and jsk_handle is not called. Another
 * result than 0 does the same with a 500. What it passes on to something slower it limits by
 * `pause_body`. */
JSK_EXPORT int jsk_body(const jsk_api *js, jsk_request *r, jsk_str part);

/* May be defined: is called once in each worker before its first request, on the thread that calls
 * jsk_handle. `*state` is what js->state(r) returns later. Another result than 0 ends the worker. */
JSK_EXPORT int jsk_start(const jsk_api *js, void **state);

/* May be defined: is called when the worker ends, after its last response. */
JSK_EXPORT void jsk_stop(const jsk_api *js, void *state);

#ifdef __cplusplus
}
#endif

#endif
