// What both parts of kernel-httpd must agree on: the request that is known, and its answer.

#ifndef KERNEL_HTTPD_H
#define KERNEL_HTTPD_H

#define REQUEST "GET / HTTP/1.1\r\n"
#define REQUEST_BYTES (sizeof(REQUEST) - 1)

#define ANSWER                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"
#define ANSWER_BYTES (sizeof(ANSWER) - 1)

#define CONNECTIONS_MAX 65536

#endif
