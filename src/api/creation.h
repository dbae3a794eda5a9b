/*
 * Making a sandbox, from the checked request to the answer; and the promise that a repeated
 * Idempotency-Key makes one sandbox only, also while the first is under way.
 */
#ifndef API_CREATION_H
#define API_CREATION_H

#include "api/call.h"
#include "api/sandbox.h"
#include "store/idempotency.h"

#define IDEMPOTENCY_KEY_LIMIT 255
#define IDEMPOTENCY_HOURS 24

struct creation {
	struct list link; /* in api->creations */
	struct api *api;
	struct sandbox *sandbox; /* being made; freed with a failed creation */
	struct warden_request claim;
	struct list waiters; /* of struct waiter: the calls that get the answer; may be empty */
	int64_t begun_us;
	bool has_key;
	char owner[OWNER_TEXT];
	char key[IDEMPOTENCY_KEY_LIMIT + 1];
	uint8_t body_hash[BODY_HASH_SIZE];
};

/* Checks the request's Idempotency-Key. True: the call is answered, or will be with another's
 * answer; false and no error in `err`: go on. */
bool creation_is_repeated(struct call *call, struct error *err);
/* Asks the warden; the call is answered later. False and err: nothing was made. */
bool creation_start(struct call *call, const struct sandbox_row *row, struct error *err);

#endif
