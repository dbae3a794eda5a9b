/*
 * Words of an instruction. Quotes and backslashes mean what they mean to a shell; variables,
 * redirections, pipes and the like have no meaning here and are refused, since nothing runs them.
 */
#include "api/dockerfile_private.h"

#include <string.h>

struct splitter {
	struct reader *reader;
	const char *at;
	char *end; /* of what is written */
	bool is_in_word;
};

static bool begin_word(struct splitter *splitter)
{
	struct words *words = &splitter->reader->words;
	if (splitter->is_in_word)
		return true;
	if (words->count == WORDS_LIMIT)
		return dockerfile_refuse(splitter->reader, "make several instructions of it",
			"there are more than %u words", WORDS_LIMIT);
	words->text[words->count] = splitter->end;
	words->is_and[words->count++] = false;
	splitter->is_in_word = true;
	return true;
}

static void end_word(struct splitter *splitter)
{
	if (splitter->is_in_word)
		*splitter->end++ = '\0';
	splitter->is_in_word = false;
}

/* A NUL for each word, and a word is at least one byte and a blank or operator: it always fits. */
static bool put(struct splitter *splitter, char character)
{
	if (!begin_word(splitter))
		return false;
	*splitter->end++ = character;
	return true;
}

static bool refuse_variable(struct splitter *splitter)
{
	return dockerfile_refuse(splitter->reader, "write the value itself",
		"variables and commands ('$', '`') are not replaced here");
}

static bool take_single(struct splitter *splitter)
{
	const char *end = strchr(++splitter->at, '\'');
	if (!end)
		return dockerfile_refuse(
			splitter->reader, "close it with '", "a quote is not closed");
	if (!begin_word(splitter))
		return false;
	while (splitter->at < end)
		*splitter->end++ = *splitter->at++;
	splitter->at = end + 1;
	return true;
}

static bool take_double(struct splitter *splitter)
{
	if (!begin_word(splitter))
		return false;
	for (splitter->at++; *splitter->at && *splitter->at != '"'; splitter->at++) {
		if (*splitter->at == '$' || *splitter->at == '`')
			return refuse_variable(splitter);
		if (*splitter->at == '\\' && strchr("\\\"$`", splitter->at[1]) && splitter->at[1])
			splitter->at++;
		*splitter->end++ = *splitter->at;
	}
	if (*splitter->at++ != '"')
		return dockerfile_refuse(
			splitter->reader, "close it with \"", "a quote is not closed");
	return true;
}

static bool take_and(struct splitter *splitter)
{
	struct words *words = &splitter->reader->words;
	end_word(splitter);
	if (!begin_word(splitter))
		return false;
	words->is_and[words->count - 1] = true;
	end_word(splitter);
	splitter->at += 2;
	return true;
}

static bool take_plain(struct splitter *splitter)
{
	char character = *splitter->at;
	if (character == '$' || character == '`')
		return refuse_variable(splitter);
	if (strchr("|&;<>()", character))
		return dockerfile_refuse(splitter->reader,
			"no shell runs this: only && between commands; quote versions: \"name>=1\"",
			"'%c' means nothing here", character);
	if (character == '\\') {
		if (!splitter->at[1])
			return dockerfile_refuse(
				splitter->reader, NULL, "it ends with a backslash");
		character = *++splitter->at;
	}
	splitter->at++;
	return put(splitter, character);
}

static bool take(struct splitter *splitter)
{
	if (*splitter->at == '\'')
		return take_single(splitter);
	if (*splitter->at == '"')
		return take_double(splitter);
	if (splitter->at[0] == '&' && splitter->at[1] == '&')
		return take_and(splitter);
	return take_plain(splitter);
}

bool dockerfile_split(struct reader *reader, const char *text)
{
	struct splitter splitter = { .reader = reader, .at = text, .end = reader->words.bytes };
	reader->words.count = 0;
	while (*splitter.at) {
		if (strchr(" \t", *splitter.at)) {
			end_word(&splitter);
			splitter.at++;
		} else if (!take(&splitter)) {
			return false;
		}
	}
	end_word(&splitter);
	return true;
}
