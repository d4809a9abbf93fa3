/* http-parser with its parsing taken out: the callbacks of a head that came before are made again, from
 * memory, for the same bytes. What such a server costs is what the callbacks and the bookkeeping behind
 * them cost, and one comparison. Any other bytes are parsed. */

#define _GNU_SOURCE
#include <string.h>

#include "with_http_parser.h"

#define HEAD_MAX 2048

/* The last head without a body that this thread has parsed, and what was found in it. */
struct memory {
	size_t size;
	char head[HEAD_MAX];
	http_parser parser;
	struct span target;
	uint32_t fields_count;
	struct field fields[FIELDS_MAX];
};

static __thread struct memory memory;

/* Looked up each time, as a parser does: no compiler can put the callbacks into the loop below. */
static const http_parser_settings *volatile settings = &with_http_parser_settings;

struct with_http_parser_connection *replayed_new(void)
{
	return with_http_parser_new();
}

void replayed_free(struct with_http_parser_connection *self)
{
	with_http_parser_free(self);
}

struct record *replayed_record(struct with_http_parser_connection *self)
{
	return with_http_parser_record(self);
}

static size_t length(struct span span)
{
	return span.end - span.start;
}

static int play(struct with_http_parser_connection *self, const char *at)
{
	const http_parser_settings *calls = settings;
	http_parser *parser = &self->parser;
	uint32_t index;
	parser->http_major = memory.parser.http_major;
	parser->http_minor = memory.parser.http_minor;
	parser->method = memory.parser.method;
	parser->flags = memory.parser.flags;
	calls->on_message_begin(parser);
	calls->on_url(parser, at + memory.target.start, length(memory.target));
	for (index = 0; index < memory.fields_count; index++) {
		const struct field *field = &memory.fields[index];
		calls->on_header_field(parser, at + field->name.start, length(field->name));
		calls->on_header_value(parser, at + field->value.start, length(field->value));
	}
	calls->on_headers_complete(parser);
	return calls->on_message_complete(parser);
}

static void remember(const struct with_http_parser_connection *self, const char *at, size_t size)
{
	const struct record *record = &self->record;
	uint32_t index, front = (uint32_t)(at - record->base);
	memory.size = size;
	memcpy(memory.head, at, size);
	memory.parser = self->parser;
	memory.target.start = record->target.start - front;
	memory.target.end = record->target.end - front;
	memory.fields_count = record->fields_count;
	for (index = 0; index < record->fields_count; index++) {
		struct field field = record->fields[index];
		field.name.start -= front;
		field.name.end -= front;
		field.value.start -= front;
		field.value.end -= front;
		memory.fields[index] = field;
	}
}

/* Parses up to the end of the next head, and remembers that if it is a whole request. */
static int learn(struct with_http_parser_connection *self, const char *at, size_t *size)
{
	int was_busy = self->record.is_busy, outcome;
	const char *end = memmem(at, *size, "\r\n\r\n", 4);
	if (end != NULL)
		*size = (size_t)(end + 4 - at);
	outcome = with_http_parser_feed(self, at, *size);
	if (outcome == OUTCOME_READ && end != NULL && !was_busy && !self->record.is_busy && *size <= HEAD_MAX)
		remember(self, at, *size);
	return outcome;
}

int replayed_feed(struct with_http_parser_connection *self, const char *at, size_t size)
{
	while (size > 0) {
		size_t taken = size;
		if (!self->record.is_busy && memory.size > 0 && size >= memory.size &&
		    memcmp(at, memory.head, memory.size) == 0) {
			taken = memory.size;
			if (play(self, at) != 0)
				return self->record.refused ? OUTCOME_REFUSED : OUTCOME_STOPPED;
		} else {
			int outcome = learn(self, at, &taken);
			if (outcome != OUTCOME_READ)
				return outcome;
		}
		at += taken;
		size -= taken;
	}
	return OUTCOME_READ;
}

int replayed_alone(struct with_http_parser_connection *self, const char *at, size_t size)
{
	(void)self;
	return memory.size == size && memcmp(at, memory.head, size) == 0;
}
