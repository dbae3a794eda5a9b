/* Ports that were declared, with their labels. */
#ifndef STORE_PORTS_H
#define STORE_PORTS_H

#include "base/id.h"
#include "store/store.h"

#include <stdint.h>

#define PORT_LABEL_SIZE 65 /* with the NUL */
#define PORTS_A_SANDBOX 64

struct port_row {
	uint16_t port;
	char label[PORT_LABEL_SIZE];
};

/* In place of an earlier one of that port. ERROR_PORT_LIMIT where there are too many. */
bool port_row_put(struct store *store, const struct sandbox_id *sandbox, const struct port_row *row,
	struct error *err);
bool port_row_delete(struct store *store, const struct sandbox_id *sandbox, uint16_t port,
	bool *ret_was_there, struct error *err);
bool port_row_delete_all(struct store *store, const struct sandbox_id *sandbox, struct error *err);

typedef void (*port_row_visit)(void *context, const struct port_row *row);
/* In order. */
bool port_row_each(struct store *store, const struct sandbox_id *sandbox, port_row_visit visit,
	void *context, struct error *err);

#endif
