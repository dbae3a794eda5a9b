/* Parameters of the query: of the target's own, each is read as a number and as a yes or no. What
 * is accepted is what it says, in no other spelling. */
#include "request.h"

#include "api/query.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void try_number(const struct call *call, const char *name, uint64_t most)
{
	size_t size = 0;
	uint64_t value = UINT64_MAX;
	struct error err = { 0 };
	const char *text = http_request_query(call->request, name, &size);
	if (!query_number(call, name, most, &value, &err)) {
		assert(err.code == ERROR_INVALID && text);
		return;
	}
	assert(value <= most && size > 0 && strspn(text, "0123456789") == size);
	assert(strtoull(text, NULL, 10) == value);
}

static void try_bool(const struct call *call, const char *name)
{
	bool value = false;
	struct error err = { 0 };
	const char *text = http_request_query(call->request, name, NULL);
	if (query_bool(call, name, &value, &err))
		assert(value == (strcmp(text, "true") == 0 || strcmp(text, "1") == 0));
	else
		assert(err.code == ERROR_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_request made;
	char *text = malloc(size + 2);
	text[0] = '/';
	memcpy(text + 1, bytes, size);
	text[size + 1] = '\0';
	if (fuzz_request_make(&made, text)) {
		struct call call = { .request = &made.request };
		for (unsigned i = 0; i < made.request.target.parameter_count; i++) {
			const char *name = made.request.target.parameters[i].name;
			if (strlen(name) != made.request.target.parameters[i].name_size)
				continue;
			try_number(&call, name, (uint64_t)1 << 53);
			try_number(&call, name, UINT64_MAX);
			try_number(&call, name, 9);
			try_bool(&call, name);
		}
	}
	fuzz_request_free(&made);
	free(text);
	return 0;
}
