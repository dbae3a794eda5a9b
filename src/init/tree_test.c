/* Killing trees; how init uses it is tested in serve_test.py. */
#include "init/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* cmocka wants those first */
#include <cmocka.h>

/* Processes, each the grandchild of the one before by a parent that is gone, each in a session of
 * its own and deaf to what can be ignored. */
static _Noreturn void hide(int ready_fd, int count)
{
	signal(SIGTERM, SIG_IGN);
	while (--count > 0 && fork() == 0) {
		setsid();
		if (fork() > 0)
			_exit(0);
	}
	(void)!write(ready_fd, "x", 1);
	for (;;)
		pause();
}

static void nothing_is_left_of_a_tree(void **state)
{
	enum { count = 6 };
	int ready[2];
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	if (fork() == 0)
		hide(ready[1], count);
	close(ready[1]);
	char bytes[count];
	for (size_t n = 0; n < sizeof(bytes); n++)
		assert_int_equal(read(ready[0], bytes, 1), 1);
	pid_t pid;
	do {
		tree_kill_descendants();
		pid = waitpid(-1, NULL, 0);
	} while (pid > 0);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(read(ready[0], bytes, 1), 0); /* nobody holds the other end */
	close(ready[0]);
}

static void the_first_sessions_and_the_own_uid_are_spared(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		for (;;)
			pause();
	}
	while (getsid(pid) != pid)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	tree_kill_session(0);
	tree_kill_session(1);
	tree_kill_session(-1);
	tree_kill_session(pid);
	tree_kill_session_once(pid);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_left_of_a_tree),
		cmocka_unit_test(the_first_sessions_and_the_own_uid_are_spared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
