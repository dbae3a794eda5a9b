/* What a Dockerfile may say, and what it is told otherwise. */
#include "api/dockerfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char good_list[] = "# all of it\nsix == 1.16.0  # small\r\n\nidna>=3,<4\n";
static const char bad_list[] = "six\n-e .\n";
static const struct context_file files[] = {
	{ "app.py", "1", 1 },
	{ "src/a.py", "2", 1 },
	{ "src/deep/b.py", "3", 1 },
	{ "requirements.txt", good_list, sizeof(good_list) - 1 },
	{ "bad.txt", bad_list, sizeof(bad_list) - 1 },
};
static const struct context context = { files, ARRAY_SIZE(files) };

static json_t *read_good(const char *text)
{
	struct error err = { 0 };
	json_t *recipe = dockerfile_read(text, strlen(text), &context, &err);
	if (!recipe)
		print_error("%s\n", err.message);
	assert_non_null(recipe);
	return recipe;
}

static struct error read_bad(const char *text)
{
	struct error err = { 0 };
	json_t *recipe = dockerfile_read(text, strlen(text), &context, &err);
	if (recipe)
		print_error("this is taken: %s\n", text);
	assert_null(recipe);
	assert_int_equal(err.code, ERROR_DOCKERFILE);
	return err;
}

static void assert_json(const json_t *recipe, const char *field, const char *expected)
{
	char *text = json_dumps(json_object_get(recipe, field), JSON_COMPACT | JSON_ENCODE_ANY);
	assert_string_equal(text, expected);
	free(text);
}

static void an_ordinary_one_is_read(void **state)
{
	json_t *recipe = read_good(
		"# syntax=docker/dockerfile:1\n\n"
		"from python:3.11-slim\n"
		"RUN apt-get update -y && \\\n"
		"    # what it needs\n"
		"\n"
		"    apt-get install -y --no-install-recommends curl g++ libxml2 \\\n"
		"    && rm -rf /var/lib/apt/lists/*\r\n"
		"WORKDIR /workspace\n"
		"COPY requirements.txt .\n"
		"RUN pip install --no-cache-dir -r requirements.txt \"pandas[excel]>=2,<3\" && "
		"python3 -m pip install rich==13.7.1\n"
		"ENV A=1 B=\"two words\" C='$x'\n"
		"LABEL org.opencontainers.image.title=\"a \\\"title\\\"\"");
	assert_json(recipe, "base", "\"base\"");
	assert_json(recipe, "from", "\"python:3.11-slim\"");
	assert_json(recipe, "debian", "[\"curl\",\"g++\",\"libxml2\"]");
	assert_json(recipe, "wheels",
		"[\"six==1.16.0\",\"idna>=3,<4\",\"pandas[excel]>=2,<3\",\"rich==13.7.1\"]");
	assert_json(recipe, "copy", "[{\"file\":3,\"to\":\"/workspace/requirements.txt\"}]");
	assert_json(recipe, "env", "{\"A\":\"1\",\"B\":\"two words\",\"C\":\"$x\"}");
	assert_json(recipe, "labels", "{\"org.opencontainers.image.title\":\"a \\\"title\\\"\"}");
	json_decref(recipe);
}

static void copies_go_where_docker_would_put_them(void **state)
{
	static const struct {
		const char *line, *copies;
	} cases[] = {
		{ "COPY app.py /opt/x", "[{\"file\":0,\"to\":\"/opt/x\"}]" },
		{ "COPY ./app.py /opt/x/", "[{\"file\":0,\"to\":\"/opt/x/app.py\"}]" },
		{ "COPY app.py .", "[{\"file\":0,\"to\":\"/workspace/app.py\"}]" },
		{ "COPY app.py /workspace", "[{\"file\":0,\"to\":\"/workspace/app.py\"}]" },
		{ "COPY app.py sub/x.py", "[{\"file\":0,\"to\":\"/workspace/sub/x.py\"}]" },
		{ "COPY src/ /app/s", "[{\"file\":1,\"to\":\"/app/s/a.py\"},"
				      "{\"file\":2,\"to\":\"/app/s/deep/b.py\"}]" },
		{ "COPY app.py src/a.py /srv", "[{\"file\":0,\"to\":\"/srv/app.py\"},"
					       "{\"file\":1,\"to\":\"/srv/a.py\"}]" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[200];
		snprintf(text, sizeof(text), "FROM base\n%s\n", cases[i].line);
		json_t *recipe = read_good(text);
		assert_json(recipe, "copy", cases[i].copies);
		json_decref(recipe);
	}
	json_t *recipe = read_good("FROM base\nCOPY . .\n");
	assert_int_equal(json_array_size(json_object_get(recipe, "copy")), ARRAY_SIZE(files));
	json_decref(recipe);
}

static void what_cannot_be_built_is_refused_with_its_line(void **state)
{
	static const char *const lines[] = { "RUN make", "RUN curl x | sh",
		"RUN apt-get install -y", "RUN apt-get install x=1.2",
		"RUN apt-get install removed-", "RUN apt-get remove x1",
		"RUN apt-get update; apt-get install -y curl", "RUN apt-get install -o X curl",
		"RUN pip install git+https://x/y", "RUN pip install ./wheel.whl",
		"RUN pip install -e .", "RUN pip install --index-url http://x six",
		"RUN pip install pandas>=2", "RUN pip install -r none.txt", "RUN pip install -r",
		"RUN pip download six", "RUN pip install 'six; os_name'", "RUN pip install $X",
		"RUN pip install `x`", "RUN", "RUN &&", "RUN apt-get update &&", "RUN [\"make\"]",
		"RUN rm -rf /etc", "RUN pip install 'a", "RUN pip install \"a", "RUN x \\",
		"COPY app.py", "COPY none /opt/", "COPY *.py /opt/", "COPY --chown=1 app.py /opt/",
		"COPY app.py /etc/x", "COPY app.py /opt/../etc/x", "COPY ../x /opt/",
		"COPY app.py /usr/local/../x/y", "ENV A", "ENV 1A=2", "ENV PATH=/x", "ENV A=$B",
		"ENV", "LABEL", "LABEL x", "WORKDIR /app", "USER root", "CMD [\"x\"]",
		"ADD app.py /opt/", "EXPOSE 80", "FROM base", "HEALTHCHECK NONE", "nonsense" };
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		char text[200];
		snprintf(text, sizeof(text), "FROM base\n# x\n%s\nENV GOOD=1\n", lines[i]);
		struct error err = read_bad(text);
		if (!strstr(err.message, "line 3:"))
			print_error("%s: %s\n", lines[i], err.message);
		assert_non_null(strstr(err.message, "line 3:"));
	}
}

static void the_beginning_must_be_a_known_from(void **state)
{
	assert_non_null(strstr(read_bad("").message, "no FROM"));
	assert_non_null(strstr(read_bad("# FROM base\n").message, "no FROM"));
	assert_non_null(strstr(read_bad("RUN pip install six\n").message, "line 1"));
	assert_non_null(strstr(read_bad("FROM alpine\n").hint, "code-interpreter"));
	read_bad("FROM base AS x\n");
	read_bad("FROM\n");
}

static void a_requirements_file_is_named_with_its_line(void **state)
{
	struct error err = read_bad("FROM base\nRUN pip install -r bad.txt\n");
	assert_non_null(strstr(err.message, "'bad.txt', line 2: '-e.'"));
}

static void bounds_hold(void **state)
{
	static char text[DOCKERFILE_LIMIT + 2], long_line[40000];
	struct error err = { 0 };
	memset(text, '\n', sizeof(text));
	assert_null(dockerfile_read(text, sizeof(text), &context, &err));
	assert_null(dockerfile_read("FROM base\0", 10, &context, &err));
	strcpy(long_line, "FROM base\nLABEL ");
	memset(long_line + strlen(long_line), 'x', 30000);
	assert_non_null(strstr(read_bad(long_line).message, "longer than"));
	strcpy(long_line, "FROM base\nLABEL ");
	for (unsigned i = 0; i < 600; i++)
		strcat(long_line, "a=1 ");
	assert_non_null(strstr(read_bad(long_line).message, "more than 512 words"));
	strcpy(long_line, "FROM base\nRUN apt-get install -y");
	for (unsigned i = 0; i < 257; i++)
		snprintf(long_line + strlen(long_line), 20, " p%u", 10 + i);
	assert_non_null(strstr(read_bad(long_line).message, "more than 256 packages"));
}

static void paths_of_a_context_are_plain(void **state)
{
	static const char *const bad[] = { "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a",
		"a\nb" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(dockerfile_path_is_plain(bad[i]));
	assert_true(dockerfile_path_is_plain("a/..b/.c"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_one_is_read),
		cmocka_unit_test(copies_go_where_docker_would_put_them),
		cmocka_unit_test(what_cannot_be_built_is_refused_with_its_line),
		cmocka_unit_test(the_beginning_must_be_a_known_from),
		cmocka_unit_test(a_requirements_file_is_named_with_its_line),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(paths_of_a_context_are_plain),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
