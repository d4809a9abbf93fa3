/* What handlers in C do: constant and formatted responses, escaping, bodies. */
#include <jissoku.h>
#include <string.h>

#define TEXT "Hello, World!"

int jsk_handle(const jsk_api *js, jsk_request *r) {
    jsk_str path = js->path(r);
    if (path.len > 6 && memcmp(path.ptr, "/json/", 6) == 0) {
        jsk_str agent = js->escape_json(r, js->field(r, "User-Agent"));
        js->header(r, "Content-Type", "application/json");
        return js->printf(r, 200, "{\"agent\":%.*s,\"active\":true}\n", JSK_ARG(agent));
    }
    js->header(r, "Content-Type", "text/plain");
    if (path.len == 5 && memcmp(path.ptr, "/echo", 5) == 0) {
        jsk_str body = js->body(r);
        return js->respond(r, 200, body.ptr, body.len);
    }
    return js->respond(r, 200, TEXT, sizeof TEXT - 1);
}
