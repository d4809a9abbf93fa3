// The part of kernel-httpd that runs inside the kernel: GET / answered where its segment arrives.
//
// Two programs hang on a map of sockets. The first sees what a connection received, before its
// process could: a request that we know is sent back, by the kernel, out of the socket it came in
// by. The second sees everything that leaves such a socket, and makes of that request its answer;
// there it may change the length, which it may not where the segment came in, since TCP goes on
// counting what it received. Neither program can wait, loop without a bound or reach memory that is
// not its own: the kernel checks that before it takes them (bpf(2)).
//
// What is not exactly one whole head of a GET / without a field on the connection or a body is left
// to the process (kernel_httpd.c), which is notified of it, and then of all that follows.

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "kernel_httpd.h"

// A longer head is the process's. The search for its end has a bound for the kernel's sake.
#define HEAD_BYTES_MAX 1024

struct {
    __uint(type, BPF_MAP_TYPE_SOCKHASH);
    __uint(max_entries, CONNECTIONS_MAX);
    __type(key, __u64); // the socket's cookie
    __type(value, __u64);
} connections SEC(".maps");

// Connections on which the process has the word: one answerer at a time keeps answers in order.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, CONNECTIONS_MAX);
    __type(key, __u64);
    __type(value, __u8);
} left_to_process SEC(".maps");

// Cookies of connections that have something for the process, which is not woken otherwise.
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} notes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} answers SEC(".maps");

static __always_inline int starts_like_ours(const char *data, const char *end)
{
    const char wanted[] = REQUEST;

    if (data + REQUEST_BYTES > end)
        return 0;
    for (__u32 i = 0; i < REQUEST_BYTES; i++)
        if (data[i] != wanted[i])
            return 0;
    return 1;
}

static __always_inline int is_field(const char *name, char one, char two, char three)
{
    return (name[0] | 0x20) == one && (name[1] | 0x20) == two && (name[2] | 0x20) == three;
}

// Whether the head ends with these bytes, and says nothing of a body or of the connection: no field
// begins with Con (Connection, Content-Length), Tra (Transfer-Encoding) or Exp (Expect).
static __always_inline int is_one_plain_head(const char *data, const char *end, __u32 length)
{
    for (__u32 i = REQUEST_BYTES - 2; i < HEAD_BYTES_MAX - 4; i++) {
        const char *at = data + i;

        if (at + 5 > end)
            return i + 4 == length && at + 4 <= end && at[0] == '\r' && at[1] == '\n' &&
                   at[2] == '\r' && at[3] == '\n';
        if (at[1] != '\n')
            continue;
        if (at[2] == '\r' || is_field(at + 2, 'c', 'o', 'n') || is_field(at + 2, 't', 'r', 'a') ||
            is_field(at + 2, 'e', 'x', 'p'))
            return 0;
    }
    return 0;
}

static __always_inline int leave_to_process(__u64 cookie)
{
    const __u8 yes = 1;

    bpf_map_update_elem(&left_to_process, &cookie, &yes, BPF_ANY);
    bpf_ringbuf_output(&notes, &cookie, sizeof(cookie), 0);
    return SK_PASS;
}

SEC("sk_skb/stream_verdict")
int take(struct __sk_buff *segment)
{
    __u64 cookie = bpf_get_socket_cookie(segment);
    __u32 length = segment->len;

    if (length > HEAD_BYTES_MAX || bpf_skb_pull_data(segment, length) ||
        bpf_map_lookup_elem(&left_to_process, &cookie))
        return leave_to_process(cookie);
    const char *data = (void *)(long)segment->data, *end = (void *)(long)segment->data_end;
    if (!starts_like_ours(data, end) || !is_one_plain_head(data, end, length))
        return leave_to_process(cookie);
    return bpf_sk_redirect_hash(segment, &connections, &cookie, 0);
}

SEC("sk_msg")
int answer(struct sk_msg_md *message)
{
    const char wanted[] = ANSWER;
    const __u32 first = 0;
    __u32 length = message->size;
    long failed = 0;

    // What the process sends is an answer already, and goes as it is.
    if (bpf_msg_pull_data(message, 0, REQUEST_BYTES, 0) ||
        !starts_like_ours(message->data, message->data_end))
        return SK_PASS;
    if (length < ANSWER_BYTES)
        failed = bpf_msg_push_data(message, 0, ANSWER_BYTES - length, 0);
    else if (length > ANSWER_BYTES)
        failed = bpf_msg_pop_data(message, 0, length - ANSWER_BYTES, 0);
    if (failed || bpf_msg_pull_data(message, 0, ANSWER_BYTES, 0))
        return SK_DROP;
    char *data = message->data;
    if (data + ANSWER_BYTES > (char *)message->data_end)
        return SK_DROP;
    __builtin_memcpy(data, wanted, ANSWER_BYTES);
    __u64 *count = bpf_map_lookup_elem(&answers, &first);
    if (count)
        (*count)++;
    return SK_PASS;
}

// The kernel lets only programs under its own licence use some of these functions.
char _license[] SEC("license") = "GPL";
