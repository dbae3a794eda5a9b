/* A byte buffer that grows up to a stated limit, never beyond. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/macros.h"

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *bytes;     /* owned; NULL while empty */
	size_t size;     /* bytes in use */
	size_t capacity; /* bytes allocated */
	size_t limit;    /* most bytes it may hold */
};

static inline struct buf buf_make(size_t limit)
{
	return (struct buf){ .limit = limit };
}

void buf_deinit(struct buf *buf);
/* False, and nothing appended, where the limit (or memory) would be passed. */
bool buf_append(struct buf *buf, const void *bytes, size_t size);
bool buf_append_text(struct buf *buf, const char *text);
bool buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
/* Room for `size` more bytes; NULL where the limit forbids. Then set buf->size. */
char *buf_reserve(struct buf *buf, size_t size);
/* Drops bytes from the front. */
void buf_consume(struct buf *buf, size_t size);
/* NUL-terminates (the NUL is not counted) and returns the text; "" when empty; NULL without
 * memory. */
const char *buf_text(struct buf *buf);

static inline void buf_cleanup(struct buf *buf)
{
	buf_deinit(buf);
}
#define cleanup_buf __attribute__((cleanup(buf_cleanup)))

#endif
