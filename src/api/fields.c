/* See fields.h. */
#include "api/fields.h"

#include <math.h>
#include <string.h>

static bool tell_syntax(const char *what, const json_error_t *problem, struct error *err)
{
	error_set(err, ERROR_INVALID, "the %s is not acceptable JSON at line %d, column %d: %.120s",
		what, problem->line, problem->column, problem->text);
	if (strstr(problem->text, "nvalid Unicode"))
		return error_hint(err, "a text has half a surrogate pair; send whole characters");
	if (strstr(problem->text, "duplicate"))
		return error_hint(err, "send each field once");
	return false;
}

static json_t *parse(const char *what, const char *text, size_t size, struct error *err)
{
	json_error_t problem;
	cleanup_json json_t *object =
		json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
	if (!object) {
		tell_syntax(what, &problem, err);
		return NULL;
	}
	if (!json_is_object(object)) {
		error_set(err, ERROR_INVALID, "the %s must be a JSON object", what);
		return NULL;
	}
	return json_incref(object);
}

json_t *fields_parse(const char *body, size_t size, const char *const *known, struct error *err)
{
	if (size == 0)
		return json_object();
	cleanup_json json_t *object = parse("body", body, size, err);
	if (!object || !fields_check(object, known, NULL, err))
		return NULL;
	return json_incref(object);
}

json_t *fields_parse_message(const char *text, size_t size, struct error *err)
{
	return parse("message", text, size, err);
}

static bool is_known(const char *name, const char *const *known)
{
	for (; *known; known++)
		if (strcmp(name, *known) == 0)
			return true;
	return false;
}

bool fields_check(json_t *object, const char *const *known, const char *inside, struct error *err)
{
	const char *name;
	json_t *value;
	json_object_foreach(object, name, value)
	{
		if (is_known(name, known))
			continue;
		error_set(err, ERROR_UNKNOWN_FIELD, "unknown field '%.80s'%s%s", name,
			inside ? " in " : "", inside ? inside : "");
		return error_hint(err,
			"leave it out; /docs and /openapi.json of this daemon list the fields");
	}
	return true;
}

bool fields_none(const char *body, size_t size, struct error *err)
{
	static const char *const known[] = { NULL };
	cleanup_json json_t *object = fields_parse(body, size, known, err);
	return object != NULL;
}

bool fields_text(
	json_t *object, const char *name, const char **value, size_t *size, struct error *err)
{
	json_t *field = json_object_get(object, name);
	if (!field)
		return true;
	if (!json_is_string(field))
		return error_set(err, ERROR_INVALID, "'%s' must be a string", name);
	*value = json_string_value(field);
	if (size)
		*size = json_string_length(field);
	else if (strlen(*value) != json_string_length(field))
		return error_set(err, ERROR_INVALID, "'%s' must not hold a NUL", name);
	return true;
}

bool fields_bool(json_t *object, const char *name, bool *value, struct error *err)
{
	json_t *field = json_object_get(object, name);
	if (!field)
		return true;
	if (!json_is_boolean(field))
		return error_set(err, ERROR_INVALID, "'%s' must be true or false", name);
	*value = json_is_true(field);
	return true;
}

bool fields_int(json_t *object, const char *name, int64_t least, int64_t most, int64_t *value,
	struct error *err)
{
	json_t *field = json_object_get(object, name);
	if (!field)
		return true;
	double number = json_number_value(field);
	bool is_whole = json_is_integer(field) || (json_is_real(field) && number == floor(number));
	if (!is_whole || number < (double)least || number > (double)most)
		return error_set(err, ERROR_INVALID,
			"'%s' must be a whole number from %lld to %lld", name, (long long)least,
			(long long)most);
	*value = json_is_integer(field) ? json_integer_value(field) : (int64_t)number;
	return true;
}

bool fields_scaled(json_t *object, const char *name, double most, double scale, int64_t *value,
	struct error *err)
{
	json_t *field = json_object_get(object, name);
	if (!field)
		return true;
	double number = json_number_value(field);
	if (!json_is_number(field) || !(number > 0) || number > most)
		return error_set(err, ERROR_INVALID, "'%s' must be a number above 0, at most %.15g",
			name, most);
	*value = (int64_t)ceil(number * scale - 1e-6);
	if (*value < 1)
		*value = 1;
	return true;
}
