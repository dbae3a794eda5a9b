/* The target of a request line. A path that is accepted is its segments, joined. */
#include "http/target.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_path(const struct target *target)
{
	const char *at = target->path;
	for (unsigned i = 0; i < target->segment_count; i++) {
		size_t length = strlen(target->segments[i]);
		assert(*at == '/' && memcmp(at + 1, target->segments[i], length) == 0);
		at += 1 + length;
	}
	assert(strcmp(at, target->segment_count ? "" : "/") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct arena arena = { 0 };
	struct target target;
	struct error err = { 0 };
	if (target_parse(&target, &arena, arena_copy(&arena, bytes, size), &err)) {
		check_path(&target);
		for (unsigned i = 0; i < target.parameter_count; i++) {
			const struct target_parameter *parameter = &target.parameters[i];
			assert(parameter->name_size + parameter->value_size <= size);
			assert(parameter->value[parameter->value_size] == '\0');
		}
	} else {
		assert(err.code == ERROR_INVALID && err.message[0] != '\0');
	}
	arena_deinit(&arena);
	return 0;
}
