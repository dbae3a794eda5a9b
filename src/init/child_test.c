/* What a child keeps. The changes of uid are tested in serve_test.py: they need root. */
#include "init/child.h"

#include "base/macros.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants those first */
#include <cmocka.h>

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void only_what_is_kept_stays_open(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		const int keep[] = { 40, -1, 3, 4, 17 };
		for (int fd = 3; fd < 60; fd++)
			dup2(STDOUT_FILENO, fd);
		bool is_right = child_keep_only(keep, ARRAY_SIZE(keep));
		for (int fd = 0; fd < 60; fd++)
			is_right &= is_open(fd) == (fd <= 4 || fd == 17 || fd == 40);
		is_right &= child_keep_only(NULL, 0) && !is_open(3) && is_open(2);
		_exit(!is_right);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void no_capability_can_always_be_had(void **state)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(!child_limit_capabilities(0) || child_limit_capabilities(1));
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_kept_stays_open),
		cmocka_unit_test(no_capability_can_always_be_had),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
