/*
 * Bodies of forms. The first byte chooses the type: encoded, or multipart with the boundary "xyz".
 * Fields must lie in the body or in what was decoded, and names be texts.
 */
#include "api/form.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const types[] = { "application/x-www-form-urlencoded",
		"multipart/form-data; boundary=xyz", "multipart/form-data; boundary=\"x;y\"" };
	struct form form;
	struct error err = { 0 };
	if (size == 0)
		return 0;
	const char *body = (const char *)bytes + 1;
	bool is_read = form_parse(&form, types[bytes[0] % ARRAY_SIZE(types)], body, --size, &err);
	assert(is_read == (err.code == ERROR_NONE));
	size_t sum = 0;
	for (size_t i = 0; i < form.count; i++) {
		const struct form_field *field = &form.fields[i];
		assert(field->name[0] && strlen(field->name) <= 255);
		assert(field->size == 0 || memchr(field->bytes, field->bytes[0], field->size));
		sum += field->size;
	}
	assert(sum <= size);
	form_deinit(&form);
	return 0;
}
