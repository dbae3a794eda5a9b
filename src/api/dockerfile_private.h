/* What the files of the Dockerfile's reader share: dockerfile.c (lines, instructions), words.c,
 * run.c, copy.c, each with the prefix dockerfile_. */
#ifndef API_DOCKERFILE_PRIVATE_H
#define API_DOCKERFILE_PRIVATE_H

#include "api/dockerfile.h"

/* Bytes of an instruction, its continuation lines together. */
#define LINE_LIMIT ((size_t)16 << 10)
#define WORDS_LIMIT 512u    /* of an instruction */
#define PACKAGES_LIMIT 256u /* of Debian, and wheels */
#define VARIABLES_LIMIT 64u /* environment, and labels */
#define VALUE_LIMIT 4096u
#define COPIES_LIMIT 4096u

struct words {
	unsigned count;
	char *text[WORDS_LIMIT];  /* into bytes */
	bool is_and[WORDS_LIMIT]; /* it is the operator "&&" */
	char bytes[LINE_LIMIT + 1];
};

struct reader {
	const struct context *context; /* not owned */
	json_t *recipe;                /* owned */
	unsigned line;                 /* where the instruction begins */
	struct error *err;
	struct words words;
	char text[LINE_LIMIT + 1]; /* the instruction */
};

/* "Dockerfile, line 3: ..." with a hint; false. */
bool dockerfile_refuse(struct reader *reader, const char *hint, const char *format, ...)
	PRINTF_LIKE(3, 4);
/* As a shell would split it, without replacing anything. What a shell would do more is refused. */
bool dockerfile_split(struct reader *reader, const char *text);
/* The words are in reader->words. */
bool dockerfile_run(struct reader *reader);
bool dockerfile_copy(struct reader *reader);
/* Appends to recipe[list]; one that is there already counts once. */
bool dockerfile_add(struct reader *reader, const char *list, const char *text);

#endif
