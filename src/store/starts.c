/* See starts.h. */
#include "store/starts.h"

#include "store/statement.h"

bool starts_count(struct store *store, uint64_t *ret_start, struct error *err)
{
	sqlite3_stmt *statement = statement_get(store, STATEMENT_STARTS_COUNT,
		"INSERT INTO starts (id, count) VALUES (1, 1)"
		" ON CONFLICT (id) DO UPDATE SET count = count + 1 RETURNING count",
		err);
	if (statement_next(statement))
		*ret_start = (uint64_t)sqlite3_column_int64(statement, 0);
	return statement_done(store, statement, err); /* only then is it written */
}
