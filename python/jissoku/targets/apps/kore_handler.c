// The response of the contract's `/` as a page handler of kore.
#include <kore/kore.h>

#include <kore/http.h>

#define HELLO "Hello, World!"

int hello(struct http_request *request);

int hello(struct http_request *request) {
    http_response_header(request, "content-type", "text/plain");
    http_response(request, 200, HELLO, sizeof HELLO - 1);
    return KORE_RESULT_OK;
}
