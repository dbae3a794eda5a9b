/*
 * Builds of templates as rows of the database: each is written when it is asked for, when it begins
 * and when it has ended, with its log. So a later api tells how they ended; one that was open when
 * the process ended has failed with that.
 */
#ifndef API_BUILD_HISTORY_H
#define API_BUILD_HISTORY_H

#include "api/builds.h"

/* As it is now. A failure is logged: the build itself goes on. */
void build_history_save(const struct build *build);
void build_history_forget(const struct build *build);
/* At the start, before any other build is there. */
bool build_history_load(struct api *api, struct error *err);

#endif
