/* Answers: JSON, errors in one envelope, and the padding that keeps clients reading while they
 * wait. */
#ifndef API_ANSWER_H
#define API_ANSWER_H

#include "api/call.h"
#include "api/writer.h"

/* Sends what was written, which is taken out of the writer. */
void answer_json(struct call *call, unsigned status, struct writer *writer);
/* The same for what is no JSON. */
void answer_text(struct call *call, unsigned status, const char *type, const struct buf *text);
void answer_empty(struct call *call, unsigned status);
/* The client hung up: ends what was begun, or answers what nobody sees. */
void answer_gone(struct call *call);
/* {"error", "code", "hint"?, "request_id"} with the code's status. */
void answer_error(struct call *call, const struct error *err);
/* Writes the envelope's fields into an open object, for errors that carry more. */
void answer_write_error(const struct call *call, const struct error *err, struct writer *writer);
/* Sends 200 and a space, or one more space. From then on the status says nothing; the body does. */
void answer_pad(struct call *call);
/* What the status of an error becomes: 200 once padding was sent. */
unsigned answer_status(const struct call *call, const struct error *err);

#endif
