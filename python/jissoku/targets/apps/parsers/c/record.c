#include "record.h"

/* A piece that follows the last one of its kind makes it longer; any other begins a new one. */
static void extend(struct record *record, struct span *span, int is_new, const char *at, size_t size)
{
	uint32_t start = (uint32_t)(at - record->base);
	if (is_new)
		span->start = start;
	span->end = start + (uint32_t)size;
}

void record_begin(struct record *record)
{
	record->fields_count = 0;
	record->last = LAST_NOTHING;
	record->is_busy = 1;
}

void record_target(struct record *record, const char *at, size_t size)
{
	extend(record, &record->target, record->last != LAST_TARGET, at, size);
	record->last = LAST_TARGET;
}

int record_name(struct record *record, const char *at, size_t size)
{
	struct field *field;
	if (record->last != LAST_NAME) {
		if (record->fields_count == FIELDS_MAX)
			return record_refuse(record, 431);
		field = &record->fields[record->fields_count++];
		extend(record, &field->name, 1, at, size);
		field->value.start = field->value.end = field->name.end;
	} else {
		field = &record->fields[record->fields_count - 1];
		extend(record, &field->name, 0, at, size);
	}
	record->last = LAST_NAME;
	return 0;
}

void record_value(struct record *record, const char *at, size_t size)
{
	struct field *field = &record->fields[record->fields_count - 1];
	extend(record, &field->value, record->last != LAST_VALUE, at, size);
	record->last = LAST_VALUE;
}

int record_refuse(struct record *record, int status)
{
	record->refused = (uint16_t)status;
	return -1;
}

int record_complete(struct record *record, const char *method, int version_minor, int keeps_alive)
{
	int stops;
	record->method = method;
	record->version_minor = (uint8_t)version_minor;
	record->keeps_alive = (uint8_t)keeps_alive;
	stops = record->each(record, record->context);
	record->last = LAST_NOTHING;
	record->is_busy = 0;
	return stops;
}
