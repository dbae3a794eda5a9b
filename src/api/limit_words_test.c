#include "api/limit_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool tells(limit_words words, const char *text)
{
	return words(text, strlen(text));
}

static void shells_and_languages_tell_of_a_full_disk_in_their_words(void **state)
{
	assert_true(tells(limit_words_no_space, "cat: write error: No space left on device"));
	assert_true(tells(limit_words_no_space, "OSError: [Errno 28] no space left on device"));
	assert_false(tells(limit_words_no_space, "a space is left"));
	assert_false(tells(limit_words_no_space, ""));
}

static void shells_and_languages_tell_of_refused_processes_in_their_words(void **state)
{
	static const char *const texts[] = { "sh: 1: Cannot fork",
		"bash: fork: retry: Resource temporarily unavailable",
		"RuntimeError: can't start new thread", "Error: spawn /bin/sh EAGAIN",
		"_fork_exec(...)\nBlockingIOError: [Errno 11] Resource temporarily unavailable" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_true(tells(limit_words_no_process, texts[i]));
}

static void an_eagain_of_a_socket_is_no_process_refused(void **state)
{
	assert_false(tells(limit_words_no_process,
		"sock.recv(1)\nBlockingIOError: [Errno 11] Resource temporarily unavailable"));
	assert_false(tells(limit_words_no_process, "fork of the project"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shells_and_languages_tell_of_a_full_disk_in_their_words),
		cmocka_unit_test(shells_and_languages_tell_of_refused_processes_in_their_words),
		cmocka_unit_test(an_eagain_of_a_socket_is_no_process_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
