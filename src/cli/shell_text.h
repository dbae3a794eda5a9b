/* Arguments as the text of a shell command. */
#ifndef CLI_SHELL_TEXT_H
#define CLI_SHELL_TEXT_H

#include "base/buf.h"

/* Appends one word that a shell takes as it stands. */
bool shell_text_word(struct buf *text, const char *word);
/* Appends "exec WORD WORD ...". */
bool shell_text_exec(struct buf *text, int count, char *const *words);

#endif
