/* Errors, buffers, ids, descriptors, the log. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/list.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

static void error_says_code_message_and_hint(void **state)
{
	struct error err;
	assert_false(error_set(&err, ERROR_INVALID, "cannot take '%s'", "x"));
	assert_false(error_hint(&err, "give a %s", "y"));
	assert_int_equal(err.code, ERROR_INVALID);
	assert_string_equal(err.message, "cannot take 'x'");
	assert_string_equal(err.hint, "give a y");
	assert_false(error_context(&err, "sandbox 'a'"));
	assert_string_equal(err.message, "sandbox 'a': cannot take 'x'");
}

static void error_text_that_is_too_long_ends_in_dots(void **state)
{
	struct error err;
	char text[600];
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&err, ERROR_INVALID, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	assert_string_equal(err.message + sizeof(err.message) - 4, "...");
}

static void error_of_the_system_keeps_its_number(void **state)
{
	struct error err;
	error_from_os(&err, ENOENT, "cannot open");
	assert_int_equal(err.os_error, ENOENT);
	assert_non_null(strstr(err.message, "No such file"));
	error_from_os(NULL, ENOENT, "nobody asks"); /* allowed */
}

static void each_error_code_has_a_word_and_a_status(void **state)
{
	for (int code = 0; code < ERROR_COUNT; code++) {
		assert_non_null(error_word((enum error_code)code));
		assert_in_range(error_status((enum error_code)code), 200, 599);
		for (int other = 0; other < code; other++)
			assert_string_not_equal(error_word((enum error_code)code),
				error_word((enum error_code)other));
	}
	assert_string_equal(error_word(ERROR_COUNT), "internal");
}

static void buf_refuses_what_passes_its_limit_and_keeps_the_rest(void **state)
{
	cleanup_buf struct buf buf = buf_make(10);
	assert_string_equal(buf_text(&buf), "");
	assert_true(buf_append_text(&buf, "12345"));
	assert_false(buf_append_text(&buf, "678901"));
	assert_string_equal(buf_text(&buf), "12345");
	assert_true(buf_printf(&buf, "%d", 67890));
	assert_false(buf_append(&buf, "x", 1));
	buf_consume(&buf, 7);
	assert_string_equal(buf_text(&buf), "890");
	assert_true(buf_append_text(&buf, "abcdefg"));
}

static void id_text_is_read_back_and_nothing_else_is(void **state)
{
	struct sandbox_id id, back;
	char text[SANDBOX_ID_TEXT];
	id_random(&id, sizeof(id));
	id_to_text(&id, sizeof(id), text);
	assert_true(id_from_text(text, &back, sizeof(back)));
	assert_memory_equal(&id, &back, sizeof(id));
	static const char *const wrong[] = { "", "00", "0000000000000000000000000000000g",
		"0000000000000000000000000000000A", "000000000000000000000000000000000" };
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(id_from_text(wrong[i], &back, sizeof(back)));
}

struct item {
	struct list link;
	int number;
};

static void list_may_lose_the_element_being_visited(void **state)
{
	struct list list;
	struct item items[3] = { { .number = 1 }, { .number = 2 }, { .number = 3 } };
	int sum = 0;
	list_init(&list);
	for (size_t i = 0; i < 3; i++)
		list_append(&list, &items[i].link);
	LIST_EACH(&list, struct item, link, item) {
		sum += item->number;
		if (item->number == 2)
			list_remove(&item->link);
	}
	assert_int_equal(sum, 6);
	list_remove(&items[1].link); /* twice is once */
	list_remove(&items[0].link);
	assert_ptr_equal(LIST_FIRST(&list, struct item, link), &items[2]);
}

static void file_is_replaced_whole_and_read_within_its_bound(void **state)
{
	char folder[] = "/tmp/base-test-XXXXXX";
	struct error err = { 0 };
	assert_non_null(mkdtemp(folder));
	cleanup_close int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd_replace_file(dir, "f", "hello", 5, 0600, &err));
	assert_true(fd_replace_file(dir, "f", "hi", 2, 0600, &err));
	size_t size;
	cleanup_free char *text = fd_read_file(dir, "f", 16, &size, &err);
	assert_string_equal(text, "hi");
	assert_int_equal(size, 2);
	assert_null(fd_read_file(dir, "f", 2, NULL, &err));
	assert_int_equal(err.code, ERROR_INVALID);
	assert_null(fd_read_file(dir, "none", 16, NULL, &err));
	assert_int_equal(err.os_error, ENOENT);
	unlinkat(dir, "f", 0);
	rmdir(folder);
}

static void log_line_is_json_whatever_is_in_it(void **state)
{
	int ends[2], old = fd_duplicate(2);
	char line[2048];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	dup2(ends[1], 2);
	log_init("test", LOG_INFO);
	log_write(LOG_DEBUG_LEVEL, "quiet", NULL, "not seen");
	log_write(LOG_ERROR, "a.b", "id", "quote \" back \\ line \n byte \xff end");
	dup2(old, 2);
	close(old);
	ssize_t n = read(ends[0], line, sizeof(line) - 1);
	assert_true(n > 0);
	line[n] = '\0';
	assert_non_null(strstr(line, "\"process\":\"test\",\"event\":\"a.b\",\"sandbox\":\"id\""));
	assert_non_null(strstr(line, "quote \\\" back \\\\ line \\u000a byte \\u00ff end"));
	assert_ptr_equal(strchr(line, '\n'), line + n - 1);
	close(ends[0]);
	close(ends[1]);
}

static void time_text_is_rfc_3339(void **state)
{
	char text[CLOCK_TEXT_SIZE];
	clock_text(1795981000123, text);
	assert_string_equal(text, "2026-11-29T19:36:40.123Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_says_code_message_and_hint),
		cmocka_unit_test(error_text_that_is_too_long_ends_in_dots),
		cmocka_unit_test(error_of_the_system_keeps_its_number),
		cmocka_unit_test(each_error_code_has_a_word_and_a_status),
		cmocka_unit_test(buf_refuses_what_passes_its_limit_and_keeps_the_rest),
		cmocka_unit_test(id_text_is_read_back_and_nothing_else_is),
		cmocka_unit_test(list_may_lose_the_element_being_visited),
		cmocka_unit_test(file_is_replaced_whole_and_read_within_its_bound),
		cmocka_unit_test(log_line_is_json_whatever_is_in_it),
		cmocka_unit_test(time_text_is_rfc_3339),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
