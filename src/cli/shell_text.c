/* See shell_text.h. What might mean something to a shell is quoted, so it changes no word. */
#include "cli/shell_text.h"

#include <string.h>

bool shell_text_word(struct buf *text, const char *word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:@%+";
	if (*word && !word[strspn(word, plain)])
		return buf_append_text(text, word);
	bool is_good = buf_append(text, "'", 1);
	for (; is_good && *word; word++)
		is_good =
			*word == '\'' ? buf_append_text(text, "'\\''") : buf_append(text, word, 1);
	return is_good && buf_append(text, "'", 1);
}

bool shell_text_exec(struct buf *text, int count, char *const *words)
{
	bool is_good = buf_append_text(text, "exec");
	for (int i = 0; i < count && is_good; i++)
		is_good = buf_append(text, " ", 1) && shell_text_word(text, words[i]);
	return is_good;
}
