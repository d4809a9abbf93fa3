#ifndef WITH_HTTP_PARSER_H
#define WITH_HTTP_PARSER_H

#include "http_parser.h"
#include "record.h"

/* A connection's parser and record. */
struct with_http_parser_connection {
	http_parser parser;
	struct record record;
};

extern const http_parser_settings with_http_parser_settings;

struct with_http_parser_connection *with_http_parser_new(void);
void with_http_parser_free(struct with_http_parser_connection *self);
struct record *with_http_parser_record(struct with_http_parser_connection *self);
int with_http_parser_feed(struct with_http_parser_connection *self, const char *at, size_t size);
int with_http_parser_alone(struct with_http_parser_connection *self, const char *at, size_t size);

#endif
