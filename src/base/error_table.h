/*
 * Every error the product can answer: code in C, word in the API, HTTP status, and what it means.
 * docs/errors.md is generated from this table (tools/errors-page).
 *
 * E(name, "word", status, "meaning")
 */
#define ERROR_TABLE(E) \
	E(NONE, "none", 200, "no error") \
	E(INTERNAL, "internal", 500, "a fault of the daemon itself; its log says more") \
	E(NO_MEMORY, "no_memory", 503, "the daemon is out of memory") \
	E(INVALID, "request.invalid", 400, \
		"the request cannot be understood; the text names the field") \
	E(UNKNOWN_FIELD, "request.unknown_field", 400, \
		"the body has a field that does not exist here") \
	E(UNAUTHORIZED, "auth.unauthorized", 401, \
		"the key is missing, malformed, unknown, expired or revoked") \
	E(OPERATOR_ONLY, "auth.operator_only", 403, \
		"only the key of the daemon's operator may ask for that") \
	E(HOST_REFUSED, "request.host_refused", 403, "the Host header is none this daemon serves") \
	E(ORIGIN_REFUSED, "request.origin_refused", 403, "a web page of another origin asked") \
	E(ROUTE_UNKNOWN, "request.route_unknown", 404, "no such path") \
	E(METHOD, "request.method", 405, "the path exists, the method does not; see Allow") \
	E(TOO_LARGE, "request.too_large", 413, "the body is larger than the stated limit") \
	E(UPGRADE, "request.upgrade_required", 426, "the path speaks WebSocket only") \
	E(MEDIA_TYPE, "request.media_type", 415, "a body with content must say application/json") \
	E(NOT_IMPLEMENTED, "not_implemented", 501, "planned, and not built yet") \
	E(SANDBOX_NOT_FOUND, "sandbox.not_found", 404, \
		"no such sandbox, or not yours, or it ended") \
	E(SANDBOX_NOT_RUNNING, "sandbox.not_running", 409, "the sandbox is paused or ending") \
	E(SANDBOX_START, "sandbox.start_failed", 500, "the sandbox could not be made") \
	E(SANDBOX_ENDED, "sandbox.ended", 410, "the sandbox ended while the call ran") \
	E(SANDBOX_LIMIT, "sandbox.too_many", 429, "the owner has as many sandboxes as allowed") \
	E(HOST_FULL, "host.full", 503, \
		"this machine takes no more sandboxes now; nothing was made") \
	E(HOST_MEMORY, "host.memory", 507, \
		"this machine has no memory for one more sandbox now; nothing was made") \
	E(HOST_BUSY, "host.busy", 503, \
		"too many large bodies or answers are under way at once; try again") \
	E(OWNER_MEMORY, "owner.memory", 429, \
		"the owner's sandboxes have as much memory as allowed") \
	E(OWNER_RATE, "owner.too_fast", 429, \
		"the owner creates more sandboxes a second than allowed") \
	E(TOKEN_NOT_FOUND, "token.not_found", 404, "the owner has no key of that prefix") \
	E(TOKEN_LAST, "token.last", 409, "the last valid key of an owner cannot be revoked") \
	E(TOKEN_LIMIT, "token.too_many", 409, "the owner has as many keys as allowed") \
	E(TEMPLATE_NOT_FOUND, "template.not_found", 404, "no template of that name") \
	E(TEMPLATE_GLOBAL, "template.global", 403, \
		"the template is the host's own; its operator builds and removes it there") \
	E(TEMPLATE_IN_USE, "template.in_use", 409, \
		"sandboxes run from the template, or it is being built") \
	E(TEMPLATE_LIMIT, "template.too_many", 409, \
		"as many templates were built over the API as may be") \
	E(DOCKERFILE, "template.dockerfile", 400, \
		"the Dockerfile has what cannot be built here; the text names the line") \
	E(BUILD_LIMIT, "build.queue_full", 429, "too many builds wait") \
	E(BUILD_NOT_FOUND, "build.not_found", 404, "no build of that id") \
	E(TEMPLATE_UNKNOWN, "template.unknown", 400, \
		"no template of that name; the text names those there are") \
	E(LANGUAGE_UNKNOWN, "language.unknown", 400, \
		"no such language; the text names those there are") \
	E(SESSION_NOT_FOUND, "session.not_found", 404, "no such context in this sandbox") \
	E(SESSION_LIMIT, "session.too_many", 429, "the sandbox has as many contexts as allowed") \
	E(SESSION_QUEUE, "session.queue_full", 429, "too many cells wait for this context") \
	E(RUN_NOT_FOUND, "run.not_found", 404, "no such run, or not yours, or no longer kept") \
	E(RUN_CANCELLED, "run.cancelled", 409, "the run was cancelled before it began") \
	E(KERNEL_START, "kernel.start_failed", 500, "the kernel did not start") \
	E(CELL_TIMEOUT, "cell.timeout", 504, "the cell ran past its limit and was interrupted") \
	E(COMMAND_TIMEOUT, "command.timeout", 504, "the command ran past its limit and was ended") \
	E(CANCELLED, "command.cancelled", 409, "the command was cancelled by who had started it") \
	E(COMMAND_START, "command.start_failed", 500, "the command could not be started") \
	E(BUSY, "sandbox.busy", 503, "the sandbox takes no further request right now; try again") \
	E(FILE_NOT_FOUND, "file.not_found", 404, "no such file or folder in the sandbox") \
	E(FILE_IS_DIRECTORY, "file.is_directory", 400, \
		"the path names a folder, a file was needed") \
	E(FILE_NOT_DIRECTORY, "file.not_directory", 400, \
		"the path names a file, a folder was needed") \
	E(FILE_FORBIDDEN, "file.forbidden", 403, "the sandbox's user may not do that") \
	E(FILE_SPECIAL, "file.special", 400, "neither an ordinary file nor a folder") \
	E(FILE_LOOP, "file.loop", 400, "too many links") \
	E(FILE_PATH, "file.path", 400, "the path is not absolute, too long, or has a NUL") \
	E(FILE_NO_SPACE, "file.no_space", 507, "the sandbox's files limit is reached") \
	E(FILE_FAILED, "file.failed", 500, "the file call failed; the text says how") \
	E(UPSTREAM, "proxy.upstream", 502, \
		"the server inside gave no answer that can be passed on") \
	E(PORT_CLOSED, "proxy.port_closed", 502, "nothing in the sandbox listens on that port") \
	E(NOT_RUNNING, "proxy.not_running", 503, "the sandbox behind the port is not running") \
	E(PORT_NOT_FOUND, "port.not_found", 404, "the port was not declared") \
	E(PORT_LIMIT, "port.too_many", 429, "the sandbox has as many declared ports as allowed") \
	E(TOKEN, "preview.token", 401, "the preview token is missing, damaged or expired") \
	E(TOKEN_PATH, "preview.path", 403, "the preview token is not for that path") \
	E(CONFLICT, "idempotency.conflict", 409, "the Idempotency-Key was used with another body") \
	E(CONFIG, "config.invalid", 500, "the configuration is wrong; the daemon does not start") \
	E(DEGRADED, "host.layer_missing", 500, \
		"a layer of the walls cannot be applied on this host") \
	E(PROTOCOL, "internal.protocol", 500, "a process of the daemon spoke out of turn")

enum error_code {
#define ERROR_ENUM(name, word, status, meaning) ERROR_##name,
	ERROR_TABLE(ERROR_ENUM)
#undef ERROR_ENUM
		ERROR_COUNT
};
