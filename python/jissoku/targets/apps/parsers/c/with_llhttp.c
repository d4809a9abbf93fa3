#include <stdlib.h>

#include "llhttp.h"
#include "record.h"

/* A connection's parser and record. */
struct with_llhttp_connection {
	llhttp_t parser;
	struct record record;
};

static struct record *record_of(llhttp_t *parser)
{
	return parser->data;
}

static int on_begin(llhttp_t *parser)
{
	record_begin(record_of(parser));
	return 0;
}

static int on_target(llhttp_t *parser, const char *at, size_t size)
{
	record_target(record_of(parser), at, size);
	return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t size)
{
	return record_name(record_of(parser), at, size);
}

static int on_value(llhttp_t *parser, const char *at, size_t size)
{
	record_value(record_of(parser), at, size);
	return 0;
}

static int on_head(llhttp_t *parser)
{
	if (parser->flags & (F_CHUNKED | F_TRANSFER_ENCODING))
		return record_refuse(record_of(parser), 501);
	if (parser->content_length > BODY_MAX)
		return record_refuse(record_of(parser), 413);
	/* Nothing is upgraded here: what follows is the next request. */
	parser->upgrade = 0;
	return 0;
}

static int on_complete(llhttp_t *parser)
{
	const char *method = llhttp_method_name(llhttp_get_method(parser));
	int minor = llhttp_get_http_minor(parser);
	return record_complete(record_of(parser), method, minor, llhttp_should_keep_alive(parser));
}

static const llhttp_settings_t SETTINGS = {
	.on_message_begin = on_begin,
	.on_url = on_target,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_head,
	.on_message_complete = on_complete,
};

static const llhttp_settings_t NOTHING;

struct with_llhttp_connection *with_llhttp_new(void)
{
	struct with_llhttp_connection *self = calloc(1, sizeof *self);
	if (self == NULL)
		abort();
	llhttp_init(&self->parser, HTTP_REQUEST, &SETTINGS);
	self->parser.data = &self->record;
	return self;
}

void with_llhttp_free(struct with_llhttp_connection *self)
{
	free(self);
}

struct record *with_llhttp_record(struct with_llhttp_connection *self)
{
	return &self->record;
}

/* Reads `size` bytes at `at`; the request begun before them is kept from `record.base` on. */
int with_llhttp_feed(struct with_llhttp_connection *self, const char *at, size_t size)
{
	llhttp_errno_t error = llhttp_execute(&self->parser, at, size);
	if (error == HPE_OK)
		return OUTCOME_READ;
	if (error == HPE_CB_MESSAGE_COMPLETE && self->record.refused == 0)
		return OUTCOME_STOPPED;
	if (self->record.refused == 0)
		self->record.refused = 400;
	return OUTCOME_REFUSED;
}

/* Makes it note nothing down from now on. */
static void silence(struct with_llhttp_connection *self)
{
	if (self->parser.settings != &NOTHING) {
		llhttp_init(&self->parser, HTTP_REQUEST, &NOTHING);
		self->parser.data = &self->record;
	}
}

/* Reads one whole head and notes nothing down: the parser alone. */
int with_llhttp_alone(struct with_llhttp_connection *self, const char *at, size_t size)
{
	silence(self);
	return llhttp_execute(&self->parser, at, size) == HPE_OK;
}
