/* The one computation of a WebSocket's handshake. */
#include "http/websocket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants those first */
#include <cmocka.h>

static void a_key_is_answered_as_the_standard_says(void **state)
{
	char text[WEBSOCKET_ACCEPT_TEXT];
	websocket_accept_text("dGhlIHNhbXBsZSBub25jZQ==", text);
	assert_string_equal(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_answered_as_the_standard_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
