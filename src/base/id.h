/* Identifiers: random bytes, written as lower hex. Sandboxes have 16 bytes, the rest 8. */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SANDBOX_ID_SIZE 16
#define SANDBOX_ID_TEXT (2 * SANDBOX_ID_SIZE + 1) /* with the NUL */
#define SHORT_ID_SIZE 8
#define SHORT_ID_TEXT (2 * SHORT_ID_SIZE + 1)

struct sandbox_id {
	uint8_t bytes[SANDBOX_ID_SIZE];
};

/* Fills with random bytes; never fails (getrandom on a booted system). */
void id_random(void *bytes, size_t size);
/* text must hold 2 * size + 1 characters. */
void id_to_text(const void *bytes, size_t size, char *text);
/* 0 to 15, of either case; -1 where it is none. */
int hex_digit(char digit);
/* Exactly 2 * size lower hex digits and nothing else, or false. */
bool id_from_text(const char *text, void *bytes, size_t size);
/* With or without the dashes of a UUID. */
bool sandbox_id_parse(const char *text, struct sandbox_id *ret_id);

#endif
