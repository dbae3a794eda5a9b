/*
 * See processes.h. One pass over /proc; who forks faster than that is met by the next interrupt,
 * and in the end the warden kills the runner and init all that is left.
 */
#include "common/processes.h"

#include "base/fd.h"
#include "base/macros.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST 4096 /* more than a sandbox may have */

struct process {
	pid_t pid, parent;
	uint64_t started;
	bool is_below, ignores, catches; /* the last two: SIGINT */
};

static ssize_t read_text(const char *pid, const char *file, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%.12s/%s", pid, file);
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	text[MAX(n, (ssize_t)0)] = '\0';
	return n;
}

static bool has_interrupt_in(const char *status, const char *name)
{
	const char *line = strstr(status, name);
	return line && strtoull(line + strlen(name), NULL, 16) >> (SIGINT - 1) & 1;
}

static void read_disposition(const char *pid, struct process *process)
{
	char text[4096];
	read_text(pid, "status", text, sizeof(text));
	process->ignores = has_interrupt_in(text, "\nSigIgn:");
	process->catches = has_interrupt_in(text, "\nSigCgt:");
}

static bool read_process(const char *pid, struct process *ret_process)
{
	char text[1024];
	if (pid[0] < '1' || pid[0] > '9' || read_text(pid, "stat", text, sizeof(text)) <= 0)
		return false;
	const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
	char state;
	int parent;
	unsigned long long started;
	if (!rest || sscanf(rest,
			     ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			     "%*d %*d %*d %llu",
			     &state, &parent, &started) != 3)
		return false;
	*ret_process = (struct process){ .pid = atoi(pid), .parent = parent, .started = started };
	read_disposition(pid, ret_process);
	return state != 'Z' && state != 'X';
}

static unsigned scan(struct process *processes)
{
	unsigned count = 0;
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	while (proc && count < MOST && (entry = readdir(proc)))
		count += read_process(entry->d_name, &processes[count]);
	if (proc)
		closedir(proc);
	return count;
}

static bool is_below(const struct process *processes, unsigned count, pid_t pid)
{
	for (unsigned i = 0; i < count; i++)
		if (processes[i].pid == pid)
			return processes[i].is_below;
	return false;
}

static void mark_descendants(struct process *processes, unsigned count, pid_t root)
{
	for (bool is_changed = true; is_changed;) {
		is_changed = false;
		for (unsigned i = 0; i < count; i++) {
			struct process *process = &processes[i];
			if (process->is_below || process->pid == root)
				continue;
			process->is_below = process->parent == root ||
					    is_below(processes, count, process->parent);
			is_changed |= process->is_below;
		}
	}
}

uint64_t processes_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
	return (uint64_t)now.tv_sec * ticks + (uint64_t)now.tv_nsec * ticks / 1000000000;
}

static bool is_spared(const struct process *process, enum processes_spared spared)
{
	return (spared != SPARED_NONE && process->ignores) ||
	       (spared == SPARED_LISTENING && process->catches);
}

void processes_signal(pid_t root, uint64_t since, enum processes_spared spared, int number)
{
	static struct process processes[MOST]; /* no memory is touched before the first use */
	unsigned count = scan(processes);
	mark_descendants(processes, count, root);
	for (unsigned i = 0; i < count; i++) {
		const struct process *process = &processes[i];
		if (process->is_below && process->started >= since && !is_spared(process, spared))
			kill(process->pid, number);
	}
}
