/* Taking paths apart, and what is refused whatever its mode. */
#include "init/path.h"

#include "base/fd.h"
#include "base/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants those first */
#include <cmocka.h>

static void a_path_is_folder_and_last_name(void **state)
{
	static const struct {
		const char *path, *folder, *name;
	} cases[] = { { "/a/b", "/a/", "b" }, { "/a", "/", "a" }, { "/", "/", "" },
		{ "/a/b/", "/a/b/", "" }, { "a", ".", "a" }, { "../a", "../", "a" },
		{ "", ".", "" } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char folder[INSIDE_PATH_SIZE];
		path_folder(cases[i].path, folder);
		assert_string_equal(folder, cases[i].folder);
		assert_string_equal(path_last_name(cases[i].path), cases[i].name);
	}
}

static void dots_name_folders(void **state)
{
	assert_true(path_is_dots("") && path_is_dots(".") && path_is_dots(".."));
	assert_false(path_is_dots("...") || path_is_dots(".a") || path_is_dots("a"));
}

static void a_path_is_absolute_and_ends(void **state)
{
	char path[INSIDE_PATH_SIZE] = "/a";
	struct inside_file_answer answer = { 0 };
	assert_true(path_check(path, &answer));
	path[0] = 'a';
	assert_false(path_check(path, &answer));
	assert_int_equal(answer.error, INSIDE_BAD_PATH);
	memset(path, '/', sizeof(path));
	assert_false(path_check(path, &answer));
	path[sizeof(path) - 1] = '\0';
	assert_true(path_check(path, &answer));
}

static uint32_t error_of(const char *path, mode_t type)
{
	struct inside_file_answer answer = { 0 };
	struct stat status;
	cleanup_close int fd = path_open_type(path, type, &status, &answer);
	assert_int_equal(fd >= 0, answer.error == INSIDE_OK);
	return answer.error;
}

static void the_kernels_own_files_are_special(void **state)
{
	assert_int_equal(error_of("/proc/version", S_IFREG), INSIDE_SPECIAL);
	assert_int_equal(error_of("/proc/self/exe", S_IFREG), INSIDE_SPECIAL);
	assert_int_equal(error_of("/proc/self/root/etc/passwd", S_IFREG), INSIDE_SPECIAL);
	assert_int_equal(error_of("/proc", S_IFDIR), INSIDE_SPECIAL);
	assert_int_equal(error_of("/dev/null", S_IFREG), INSIDE_SPECIAL);
	assert_int_equal(error_of("/proc/../etc/passwd", S_IFREG), INSIDE_OK);
	assert_int_equal(error_of("/etc", S_IFDIR), INSIDE_OK);
	assert_int_equal(error_of("/etc", S_IFREG), INSIDE_IS_DIRECTORY);
	assert_int_equal(error_of("/etc/passwd", S_IFDIR), INSIDE_NOT_DIRECTORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_folder_and_last_name),
		cmocka_unit_test(dots_name_folders),
		cmocka_unit_test(a_path_is_absolute_and_ends),
		cmocka_unit_test(the_kernels_own_files_are_special),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
