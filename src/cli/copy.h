/* Files and folders between here and a sandbox. Contents go through in pieces; a target is there
 * whole or as it was. */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include "cli/daemon.h"

#define COPY_DEPTH 64     /* folders within folders */
#define COPY_MOST 100000u /* files and folders of one copy */
#define COPY_PATH ((size_t)4096)

struct copy {
	struct daemon *daemon; /* not owned */
	const char *id;        /* not owned */
	unsigned files, folders, skipped;
	struct buf orders; /* owned: for the shell inside, when all is there */
};

enum copy_kind { COPY_NOTHING, COPY_FILE, COPY_FOLDER };

void copy_deinit(struct copy *copy);

/* What there is at a path inside; links are followed. */
bool copy_look(struct copy *copy, const char *path, enum copy_kind *ret_kind, struct error *err);
/* "/fs?path=..." of the sandbox. */
bool copy_address(const struct copy *copy, const char *what, const char *path, struct buf *ret,
	struct error *err);
/* Counts one more; false and err when they are too many, or too deep. */
bool copy_count(struct copy *copy, unsigned *counter, unsigned depth, struct error *err);
/* Says that something is left out, and why. */
void copy_skip(struct copy *copy, const char *path, const char *why);
/* "folder/name"; false and err when it is too long. */
bool copy_join(char path[COPY_PATH], const char *folder, const char *name, struct error *err);

/* ---- to the sandbox ---- */

/* From a descriptor to its end. */
bool copy_up_stream(struct copy *copy, int fd, const char *path, struct error *err);
/* A file, or a folder with all in it, which becomes `path`. */
bool copy_up(struct copy *copy, const char *from, const char *path, struct error *err);
/* What the API cannot do: empty folders, files that may be run. To be called at the end. */
bool copy_up_finish(struct copy *copy, struct error *err);

/* ---- from the sandbox ---- */

bool copy_down_stream(struct copy *copy, const char *path, int fd, struct error *err);
/* A file becomes `name` in the folder, in place of a file of that name. */
bool copy_down_file(
	struct copy *copy, const char *path, int dir_fd, const char *name, struct error *err);
/* All that is in a folder, into this one. */
bool copy_down_folder(
	struct copy *copy, const char *path, int dir_fd, unsigned depth, struct error *err);

#endif
