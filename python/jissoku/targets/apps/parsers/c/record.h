/* What a server notes down of a request while a callback parser reads it.
 *
 * Places are offsets from `base`, the front of the bytes that are kept of this request. They stay true
 * when the rest of a request comes later, because the server keeps what came before in front of it. */

#ifndef RECORD_H
#define RECORD_H

#include <stddef.h>
#include <stdint.h>

#define FIELDS_MAX 100
#define BODY_MAX 65536

struct span {
	uint32_t start, end;
};

struct field {
	struct span name, value;
};

enum last { LAST_NOTHING, LAST_TARGET, LAST_NAME, LAST_VALUE };

struct record {
	const char *base;
	const char *method;
	struct span target;
	uint32_t fields_count;
	uint16_t refused; /* the status of the refusal, or 0 */
	uint8_t keeps_alive;
	uint8_t version_minor;
	uint8_t last;
	uint8_t is_busy; /* a request has begun and is not complete */
	int (*each)(struct record *, void *); /* not 0: stop */
	void *context;
	struct field fields[FIELDS_MAX];
};

/* What became of some bytes. */
enum outcome { OUTCOME_READ, OUTCOME_STOPPED, OUTCOME_REFUSED };

void record_begin(struct record *record);
void record_target(struct record *record, const char *at, size_t size);
int record_name(struct record *record, const char *at, size_t size);
void record_value(struct record *record, const char *at, size_t size);
int record_refuse(struct record *record, int status);
int record_complete(struct record *record, const char *method, int version_minor, int keeps_alive);

#endif
