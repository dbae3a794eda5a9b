/* See utf8.h. The bounds of the second byte keep out overlong forms, surrogates, and what is too
 * big. */
#include "api/utf8.h"

static enum utf8_step begin(struct utf8 *state, uint8_t byte, uint32_t *ret_character)
{
	*state = (struct utf8){ .low = 0x80, .high = 0xbf };
	*ret_character = byte < 0x80 ? byte : UTF8_REPLACEMENT;
	if (byte < 0x80)
		return UTF8_CHARACTER;
	if (byte < 0xc2 || byte > 0xf4)
		return UTF8_BAD;
	if (byte < 0xe0) {
		state->left = 1;
		state->value = byte & 0x1f;
	} else if (byte < 0xf0) {
		state->left = 2;
		state->value = byte & 0x0f;
		state->low = byte == 0xe0 ? 0xa0 : 0x80;
		state->high = byte == 0xed ? 0x9f : 0xbf;
	} else {
		state->left = 3;
		state->value = byte & 0x07;
		state->low = byte == 0xf0 ? 0x90 : 0x80;
		state->high = byte == 0xf4 ? 0x8f : 0xbf;
	}
	return UTF8_MORE;
}

enum utf8_step utf8_step(struct utf8 *state, uint8_t byte, uint32_t *ret_character)
{
	if (state->left == 0)
		return begin(state, byte, ret_character);
	if (byte < state->low || byte > state->high) {
		*state = (struct utf8){ 0 };
		*ret_character = UTF8_REPLACEMENT;
		return UTF8_BAD_AGAIN;
	}
	state->value = state->value << 6 | (byte & 0x3f);
	state->low = 0x80;
	state->high = 0xbf;
	if (--state->left > 0)
		return UTF8_MORE;
	*ret_character = state->value;
	*state = (struct utf8){ 0 };
	return UTF8_CHARACTER;
}

size_t utf8_encode(uint32_t character, char bytes[4])
{
	if (character < 0x80) {
		bytes[0] = (char)character;
		return 1;
	}
	size_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
	for (size_t i = size - 1; i > 0; i--) {
		bytes[i] = (char)(0x80 | (character & 0x3f));
		character >>= 6;
	}
	static const uint8_t marks[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	bytes[0] = (char)(marks[size] | character);
	return size;
}

size_t utf8_open_end(const char *bytes, size_t size)
{
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		uint8_t byte = (uint8_t)bytes[size - back];
		if (byte < 0x80)
			return 0;
		if (byte >= 0xc0) {
			size_t needed = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
			return needed > back ? back : 0;
		}
	}
	return 0;
}
