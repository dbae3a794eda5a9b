/* Errors in the contract's words, and what a peer's closing looks like. */
#include "init/answer.h"

#include "base/fd.h"
#include "base/macros.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
/* cmocka wants those first */
#include <cmocka.h>

static void each_errno_has_its_word(void **state)
{
	static const struct {
		int os_error;
		enum inside_error error;
	} cases[] = { { ENOENT, INSIDE_NOT_FOUND }, { EISDIR, INSIDE_IS_DIRECTORY },
		{ ENOTDIR, INSIDE_NOT_DIRECTORY }, { EACCES, INSIDE_FORBIDDEN },
		{ EPERM, INSIDE_FORBIDDEN }, { EROFS, INSIDE_FORBIDDEN },
		{ EBUSY, INSIDE_FORBIDDEN }, { EXDEV, INSIDE_FORBIDDEN }, { ENXIO, INSIDE_SPECIAL },
		{ ENODEV, INSIDE_SPECIAL }, { ELOOP, INSIDE_LOOP },
		{ ENAMETOOLONG, INSIDE_BAD_PATH }, { ENOSPC, INSIDE_NO_SPACE },
		{ EDQUOT, INSIDE_NO_SPACE }, { EFBIG, INSIDE_NO_SPACE }, { EAGAIN, INSIDE_BUSY },
		{ EIO, INSIDE_FAILED }, { ENOMEM, INSIDE_FAILED } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inside_file_answer answer = { .size = 7 };
		assert_false(answer_fail_os(&answer, cases[i].os_error));
		assert_int_equal(answer.error, cases[i].error);
		assert_int_equal(answer.os_error, cases[i].os_error);
		assert_int_equal(answer.size, 0);
	}
}

static void shutting_down_is_no_hang_up(void **state)
{
	int ends[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_false(answer_is_hung_up(ends[0]));
	assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
	assert_false(answer_is_hung_up(ends[0]));
	assert_true(answer_send(ends[0], "x", 1));
	fd_close(&ends[1]);
	assert_true(answer_is_hung_up(ends[0]));
	assert_false(answer_send(ends[0], "x", 1));
	fd_close(&ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_errno_has_its_word),
		cmocka_unit_test(shutting_down_is_no_hang_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
