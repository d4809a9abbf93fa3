const c = @import("jissoku.zig");

export const jsk_abi: u32 = c.JSK_ABI;

export fn jsk_handle(js: *const c.jsk_api, r: *c.jsk_request) c_int {
    const name = js.query.?(r, "name");
    _ = js.header.?(r, "Content-Type", "text/plain");
    return js.printf.?(r, 200, "Hello, %.*s!", @as(c_int, @intCast(name.len)), name.ptr);
}
