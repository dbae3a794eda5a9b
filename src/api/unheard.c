/* See unheard.h. */
#include "api/unheard.h"

void unheard_init(struct unheard *unheard)
{
	*unheard = (struct unheard){ .last = buf_make(UNHEARD_LIMIT) };
}

void unheard_deinit(struct unheard *unheard)
{
	buf_deinit(&unheard->last);
	unheard->total = 0;
}

void unheard_feed(struct unheard *unheard, const char *bytes, size_t size)
{
	struct buf *last = &unheard->last;
	unheard->total += size;
	if (size > UNHEARD_LIMIT) {
		bytes += size - UNHEARD_LIMIT;
		size = UNHEARD_LIMIT;
	}
	if (size > UNHEARD_LIMIT - last->size)
		buf_consume(last, size - (UNHEARD_LIMIT - last->size));
	buf_append(last, bytes, size);
}

static void tell(struct unheard *unheard, const char *name, struct writer *writer)
{
	if (unheard->total == 0)
		return;
	writer_open(writer, name, '{');
	writer_bytes(writer, "text", unheard->last.bytes, unheard->last.size);
	writer_int(writer, "total", (int64_t)unheard->total);
	writer_close(writer, '}');
	unheard_deinit(unheard);
}

void unheard_tell(struct unheard streams[2], struct writer *writer)
{
	if (streams[0].total == 0 && streams[1].total == 0)
		return;
	writer_open(writer, "between_cells", '{');
	tell(&streams[0], "stdout", writer);
	tell(&streams[1], "stderr", writer);
	writer_close(writer, '}');
}
