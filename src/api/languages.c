/* See languages.h. */
#include "api/languages.h"

#include "api/answer.h"
#include "api/routes.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *word;
	enum language language;
} aliases[] = {
	{ "", LANGUAGE_PYTHON },
	{ "py", LANGUAGE_PYTHON },
	{ "python3", LANGUAGE_PYTHON },
	{ "sh", LANGUAGE_BASH },
	{ "shell", LANGUAGE_BASH },
	{ "js", LANGUAGE_NODE },
	{ "javascript", LANGUAGE_NODE },
	{ "nodejs", LANGUAGE_NODE },
};

static bool find_word(const char *word, enum language *ret_language)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (strcmp(word, aliases[i].word) != 0)
			continue;
		*ret_language = aliases[i].language;
		return true;
	}
	return language_find(word, ret_language);
}

static void join_names(uint32_t set, char *text, size_t size)
{
	size_t used = 0;
	for (unsigned i = 0; i < LANGUAGE_COUNT; i++)
		if (set & LANGUAGE_BIT(i) && used < size)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
				language_name((enum language)i));
}

bool languages_find(const struct sandbox *sandbox, const char *word, enum language *ret_language,
	struct error *err)
{
	const struct template *template =
		config_template(&sandbox->api->config, sandbox->template_name);
	uint32_t set = template ? template->languages : LANGUAGE_BIT(LANGUAGE_PYTHON);
	char names[64] = "";
	if (find_word(word, ret_language) && set & LANGUAGE_BIT(*ret_language))
		return true;
	join_names(set, names, sizeof(names));
	error_set(err, ERROR_LANGUAGE_UNKNOWN, "no language '%.40s'; there is: %s", word, names);
	return error_hint(err, "the sandbox's template '%.60s' decides", sandbox->template_name);
}

void languages_write(const struct config *config, const char *key, struct writer *writer)
{
	uint32_t set = 0;
	for (size_t i = 0; i < config->template_count; i++)
		set |= config->templates[i].languages;
	writer_open(writer, key, '[');
	for (unsigned i = 0; i < LANGUAGE_COUNT; i++)
		if (set & LANGUAGE_BIT(i))
			writer_text(writer, NULL, language_name((enum language)i));
	writer_close(writer, ']');
}

void languages_list(struct call *call)
{
	cleanup_writer struct writer writer = writer_make();
	languages_write(&call->api->config, NULL, &writer);
	answer_json(call, 200, &writer);
}
