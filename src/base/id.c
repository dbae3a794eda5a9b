/* See id.h. */
#include "base/id.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

static const char digits[] = "0123456789abcdef";

void id_random(void *bytes, size_t size)
{
	ssize_t n = TEMP_FAILURE_RETRY(getrandom(bytes, size, 0));
	assert(n == (ssize_t)size); /* holds for up to 256 bytes */
}

void id_to_text(const void *bytes, size_t size, char *text)
{
	const uint8_t *at = bytes;
	for (size_t i = 0; i < size; i++) {
		text[2 * i] = digits[at[i] >> 4];
		text[2 * i + 1] = digits[at[i] & 15];
	}
	text[2 * size] = '\0';
}

int hex_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20; /* lower case */
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool id_from_text(const char *text, void *bytes, size_t size)
{
	uint8_t *at = bytes;
	if (strnlen(text, 2 * size + 1) != 2 * size || strspn(text, digits) != 2 * size)
		return false;
	for (size_t i = 0; i < size; i++)
		at[i] = (uint8_t)(hex_digit(text[2 * i]) * 16 + hex_digit(text[2 * i + 1]));
	return true;
}

bool sandbox_id_parse(const char *text, struct sandbox_id *ret_id)
{
	static const char dashes[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	char plain[SANDBOX_ID_TEXT];
	size_t n = 0;
	if (strnlen(text, sizeof(dashes)) != sizeof(dashes) - 1)
		return id_from_text(text, ret_id->bytes, SANDBOX_ID_SIZE);
	for (size_t i = 0; i < sizeof(dashes) - 1; i++) {
		if (dashes[i] == 'x')
			plain[n++] = text[i];
		else if (text[i] != '-')
			return false;
	}
	plain[n] = '\0';
	return id_from_text(plain, ret_id->bytes, SANDBOX_ID_SIZE);
}
