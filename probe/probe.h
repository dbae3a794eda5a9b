/*
 * What the files of the probe share: the table's entry, the JSON writer, and attempts.
 *
 * The probe is hostile code that reports: each subcommand tries what a sandbox must refuse, and
 * prints what the kernel answered as one JSON object. It judges nothing; the tests do. It is built
 * twice: as a static program, and as a library that a Python kernel loads, so that the same tries
 * are made by a process that never called execve (probe_main).
 */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include "base/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct probe_command {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand; an exit status */
	const char *usage;                 /* arguments, and what it tells */
};

/* One table a file; each ends with an entry without a name. */
extern const struct probe_command posture_commands[];
extern const struct probe_command syscall_commands[];
extern const struct probe_command namespace_commands[];
extern const struct probe_command mount_commands[];
extern const struct probe_command credential_commands[];
extern const struct probe_command filter_commands[];
extern const struct probe_command process_commands[];
extern const struct probe_command socket_commands[];
extern const struct probe_command file_commands[];
extern const struct probe_command resource_commands[];
extern const struct probe_command frame_commands[];

int probe_main(int argc, char **argv);

/* ---- JSON on stdout; key is NULL inside arrays. Bytes from 0x80 on are written as \u00XX. ---- */
void json_start(void);                         /* a new document */
void json_open(const char *key, char bracket); /* '{' or '[' */
void json_close(char bracket);                 /* '}' or ']' */
void json_text(const char *key, const char *text);
void json_bytes(const char *key, const char *bytes, size_t size);
void json_number(const char *key, int64_t number);
void json_format(const char *key, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---- attempts ---- */
/* 0 (or more) when the kernel did it, -1 and errno when it refused. */
typedef long (*attempt)(const void *argument);

/* Makes the attempt in a child of its own and reports under `name`: "OK", the errno's name, the
 * name of the signal that ended the child, or "hangs" after two seconds. The child shares our
 * memory unless it is forked: what forks, starts threads, makes namespaces or dies has to be. */
void try(const char *name, attempt run, const void *argument);
void try_forked(const char *name, attempt run, const void *argument);
/* Reports a result that was had in this process. */
void report(const char *name, long result);
const char *errno_name(int error);
const char *signal_name(int status); /* of the one that ended a process: "SIGSYS" */

/* Reads a whole small file; NULL and errno. To be freed. NUL-terminated. */
char *read_text(const char *path, size_t *ret_size);
/* Each line of /proc/self/mountinfo's mount point, NULL at the end; lives for ever. */
char **mount_points(void);

#endif
