/* The description against the compiled table of routes: each describes the other, whole. */
#include "api/embedded.h"
#include "api/fields.h"
#include "api/routes.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

static json_t *document;

/* Handlers want a whole process, which is main.c's; none of them runs here. */
bool api_take_descriptors(struct api *api, unsigned count, struct error *err)
{
	abort();
}

void api_return_descriptors(struct api *api, unsigned count)
{
	abort();
}

void api_serve(struct api *api)
{
	abort();
}

void api_call_ended(struct api *api)
{
	abort();
}

static int load(void **state)
{
	document = json_loadb((const char *)embedded_openapi, embedded_openapi_size, 0, NULL);
	return document ? 0 : -1;
}

static int unload(void **state)
{
	json_decref(document);
	return 0;
}

/* Whether a described path is the pattern: names stand for names, and for any rest. */
static bool is_same(const char *path, const char *pattern)
{
	while (*path && *pattern) {
		size_t size = strcspn(path + 1, "/") + 1, wanted = strcspn(pattern + 1, "/") + 1;
		bool is_name = path[1] == '{' && (pattern[1] == '{' || pattern[1] == '*');
		if (!is_name && (size != wanted || strncmp(path, pattern, size) != 0))
			return false;
		path += size;
		pattern += wanted;
	}
	return *path == *pattern;
}

static json_t *find_item(const char *pattern)
{
	const char *path;
	json_t *item;
	json_object_foreach(json_object_get(document, "paths"), path, item)
	{
		if (is_same(path, pattern))
			return item;
	}
	return NULL;
}

static json_t *find_operation(const struct route *route)
{
	char method[16] = "get"; /* one of all, where any goes */
	for (size_t i = 0; route->method[i]; i++) {
		method[i] = (char)(route->method[i] | 32);
		method[i + 1] = '\0';
	}
	return json_object_get(find_item(route->pattern), method);
}

static void every_route_is_described(void **state)
{
	const struct route *route;
	for (size_t i = 0; (route = routes_at(i)) != NULL; i++) {
		json_t *operation = find_operation(route);
		if (!operation)
			fail_msg("'%s %s' is not described", route->method, route->pattern);
		bool is_open = json_array_size(json_object_get(operation, "security")) == 0;
		assert_int_equal(is_open, (route->flags & ROUTE_OPEN) != 0);
	}
}

static bool has_route(const char *path, const char *method)
{
	const struct route *route;
	for (size_t i = 0; (route = routes_at(i)) != NULL; i++)
		if (is_same(path, route->pattern) &&
			(!*route->method || strcasecmp(route->method, method) == 0))
			return true;
	return false;
}

static void every_described_operation_has_a_route(void **state)
{
	const char *path, *method;
	json_t *item, *operation;
	json_object_foreach(json_object_get(document, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			if (!has_route(path, method))
				fail_msg("'%s %s' has no route", method, path);
		}
	}
}

static void every_operation_has_a_name_of_its_own(void **state)
{
	const char *path, *method;
	json_t *item, *operation;
	cleanup_json json_t *names = json_object();
	json_object_foreach(json_object_get(document, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			const char *name =
				json_string_value(json_object_get(operation, "operationId"));
			assert_non_null(name);
			if (json_object_get(names, name))
				fail_msg("two operations are called '%s'", name);
			json_object_set_new(names, name, json_true());
		}
	}
}

static void every_code_of_an_error_is_in_the_description(void **state)
{
	json_t *words = document;
	static const char *const way[] = { "components", "schemas", "Error", "properties", "code",
		"enum" };
	for (size_t i = 0; i < ARRAY_SIZE(way); i++)
		words = json_object_get(words, way[i]);
	assert_int_equal(json_array_size(words), ERROR_COUNT - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_route_is_described),
		cmocka_unit_test(every_described_operation_has_a_route),
		cmocka_unit_test(every_operation_has_a_name_of_its_own),
		cmocka_unit_test(every_code_of_an_error_is_in_the_description),
	};
	return cmocka_run_group_tests(tests, load, unload);
}
