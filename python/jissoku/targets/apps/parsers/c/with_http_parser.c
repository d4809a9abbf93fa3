#include <stdlib.h>

#include "with_http_parser.h"

static struct record *record_of(http_parser *parser)
{
	return parser->data;
}

static int on_begin(http_parser *parser)
{
	record_begin(record_of(parser));
	return 0;
}

static int on_target(http_parser *parser, const char *at, size_t size)
{
	record_target(record_of(parser), at, size);
	return 0;
}

static int on_name(http_parser *parser, const char *at, size_t size)
{
	return record_name(record_of(parser), at, size);
}

static int on_value(http_parser *parser, const char *at, size_t size)
{
	record_value(record_of(parser), at, size);
	return 0;
}

static int on_head(http_parser *parser)
{
	if (parser->flags & F_CHUNKED || parser->extra_flags & F_TRANSFER_ENCODING >> 8)
		return record_refuse(record_of(parser), 501);
	/* Without a Content-Length it is the greatest number. */
	if (parser->flags & F_CONTENTLENGTH && parser->content_length > BODY_MAX)
		return record_refuse(record_of(parser), 413);
	/* Nothing is upgraded here: what follows is the next request. */
	parser->upgrade = 0;
	return 0;
}

static int on_complete(http_parser *parser)
{
	const char *method = http_method_str(parser->method);
	int minor = parser->http_minor;
	return record_complete(record_of(parser), method, minor, http_should_keep_alive(parser));
}

const http_parser_settings with_http_parser_settings = {
	.on_message_begin = on_begin,
	.on_url = on_target,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_head,
	.on_message_complete = on_complete,
};

static const http_parser_settings NOTHING;

struct with_http_parser_connection *with_http_parser_new(void)
{
	struct with_http_parser_connection *self = calloc(1, sizeof *self);
	if (self == NULL)
		abort();
	http_parser_init(&self->parser, HTTP_REQUEST);
	self->parser.data = &self->record;
	return self;
}

void with_http_parser_free(struct with_http_parser_connection *self)
{
	free(self);
}

struct record *with_http_parser_record(struct with_http_parser_connection *self)
{
	return &self->record;
}

/* Reads `size` bytes at `at`; the request begun before them is kept from `record.base` on. */
int with_http_parser_feed(struct with_http_parser_connection *self, const char *at, size_t size)
{
	http_parser_execute(&self->parser, &with_http_parser_settings, at, size);
	if (HTTP_PARSER_ERRNO(&self->parser) == HPE_OK)
		return OUTCOME_READ;
	if (HTTP_PARSER_ERRNO(&self->parser) == HPE_CB_message_complete && self->record.refused == 0)
		return OUTCOME_STOPPED;
	if (self->record.refused == 0)
		self->record.refused = 400;
	return OUTCOME_REFUSED;
}

/* Reads one whole head and notes nothing down: the parser alone. */
int with_http_parser_alone(struct with_http_parser_connection *self, const char *at, size_t size)
{
	http_parser_execute(&self->parser, &NOTHING, at, size);
	return HTTP_PARSER_ERRNO(&self->parser) == HPE_OK;
}
