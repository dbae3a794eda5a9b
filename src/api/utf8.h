/*
 * UTF-8, one byte at a time: foreign bytes come in, characters come out, and what is no UTF-8 comes
 * out as U+FFFD, once for each longest wrong beginning (as browsers do it).
 */
#ifndef API_UTF8_H
#define API_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT 0xfffdu

struct utf8 {              /* all zero between characters */
	uint32_t value;    /* bits so far */
	uint8_t left;      /* bytes still to come */
	uint8_t low, high; /* what the next one may be */
};

enum utf8_step {
	UTF8_MORE,      /* in the middle of a character */
	UTF8_CHARACTER, /* *ret_character is one */
	UTF8_BAD,       /* *ret_character is the replacement; the byte is used up */
	UTF8_BAD_AGAIN, /* the same, and the byte is to be given again */
};

enum utf8_step utf8_step(struct utf8 *state, uint8_t byte, uint32_t *ret_character);
/* Writes 1 to 4 bytes and returns how many. */
size_t utf8_encode(uint32_t character, char bytes[4]);
/* How many of the last bytes are the beginning of a character that goes on behind them: 0 to 3. */
size_t utf8_open_end(const char *bytes, size_t size);

#endif
