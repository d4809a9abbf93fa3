package main

/*
// Go declares the function itself, without const.
#define jsk_handle jsk_handle_in_c
#include <jissoku.h>
#undef jsk_handle

static jsk_str query(jsk_api *js, jsk_request *r, const char *name) { return js->query(r, name); }
static int header(jsk_api *js, jsk_request *r, const char *name, const char *value) {
    return js->header(r, name, value);
}
static int respond(jsk_api *js, jsk_request *r, int status, const void *body, size_t size) {
    return js->respond(r, status, body, size);
}
*/
import "C"

import "unsafe"

var name, contentType, text = C.CString("name"), C.CString("Content-Type"), C.CString("text/plain")

//export jsk_handle
func jsk_handle(js *C.jsk_api, r *C.jsk_request) C.int {
	found := C.query(js, r, name)
	body := "Hello, " + C.GoStringN(found.ptr, C.int(found.len)) + "!"
	C.header(js, r, contentType, text)
	return C.respond(js, r, 200, unsafe.Pointer(unsafe.StringData(body)), C.size_t(len(body)))
}

func main() {}
