/* See limit_words.h. EAGAIN has many senders, sockets above all: it counts beside a word for the
 * making of processes only. */
#include "api/limit_words.h"

#include "base/macros.h"

#include <string.h>

static bool has_any(const char *bytes, size_t size, const char *const words[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (size > 0 && memmem(bytes, size, words[i], strlen(words[i])))
			return true;
	return false;
}

bool limit_words_no_space(const char *bytes, size_t size)
{
	/* some write "no", some "No" */
	static const char *const words[] = { "o space left on device", "[Errno 28]", "ENOSPC" };
	return has_any(bytes, size, words, ARRAY_SIZE(words));
}

bool limit_words_no_process(const char *bytes, size_t size)
{
	static const char *const plain[] = { "annot fork", "an't start new thread" };
	static const char *const refused[] = { "esource temporarily unavailable", "EAGAIN" };
	static const char *const making[] = { "fork", "spawn", "clone(", "start_new_thread" };
	return has_any(bytes, size, plain, ARRAY_SIZE(plain)) ||
	       (has_any(bytes, size, refused, ARRAY_SIZE(refused)) &&
		       has_any(bytes, size, making, ARRAY_SIZE(making)));
}
