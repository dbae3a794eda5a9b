/*
 * Killing what does not want to be killed.
 *
 * A tree that forks faster than it is killed is never killed one by one, so it is first stopped. A
 * process with SIGSTOP pending cannot finish a fork (the kernel restarts the call after the
 * signal), so a pass over /proc that finds no process it did not already signal means that the tree
 * stands still; the sandbox's process limit makes that soon. SIGKILL then meets processes that can
 * neither fork nor reap, so no pid among them can have been given to somebody else meanwhile.
 *
 * User processes outside of the tree may send SIGCONT. That costs another round, not the outcome:
 * after TREE_PASSES the tree is killed as it is, and the caller comes back until wait() says
 * ECHILD. A descendant cannot leave: its chain of parents ends at the caller, which is a subreaper,
 * and a new session or process group does not change who the parent is.
 */
#include "init/tree.h"

#include "base/fd.h"
#include "base/macros.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TREE_PROCESSES 4096 /* looked at in one pass; what lies beyond is met in a later round */
#define TREE_PASSES 50
#define SESSION_ROUNDS 100
#define SESSION_PAUSE_MS 10

struct process {
	pid_t pid, parent, session;
	bool is_chosen;
};

struct table {
	struct process processes[TREE_PROCESSES];
	size_t count;
};

/* Marks in the table what is meant. */
typedef void (*choose)(struct table *table, pid_t id);

static size_t read_text(int proc_fd, const char *name, const char *file, char *text, size_t size)
{
	char path[NAME_MAX + 16];
	snprintf(path, sizeof(path), "%s/%s", name, file);
	cleanup_close int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	text[n < 0 ? 0 : n] = '\0';
	return n < 0 ? 0 : (size_t)n;
}

/* Dead ones are left out: they neither fork nor need killing. A process whose first thread alone
 * has ended looks like a zombie, and lives. */
static bool read_process(int proc_fd, const char *name, struct process *process)
{
	char text[512];
	if (name[0] < '1' || name[0] > '9' || !read_text(proc_fd, name, "stat", text, sizeof(text)))
		return false;
	const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
	char state;
	int parent, session, threads;
	if (!rest || sscanf(rest,
			     ") %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			     "%*d %d",
			     &state, &parent, &session, &threads) != 4)
		return false;
	*process = (struct process){ .pid = atoi(name), .parent = parent, .session = session };
	return threads > 1 || (state != 'Z' && state != 'X');
}

static void scan(struct table *table)
{
	table->count = 0;
	DIR *proc = opendir("/proc");
	if (!proc)
		return;
	struct dirent *entry;
	while (table->count < TREE_PROCESSES && (entry = readdir(proc)))
		if (read_process(dirfd(proc), entry->d_name, &table->processes[table->count]))
			table->count++;
	closedir(proc);
}

/* By halving: /proc lists pids in ascending order. */
static bool is_chosen(const struct table *table, pid_t pid)
{
	size_t low = 0, high = table->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table->processes[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < table->count && table->processes[low].pid == pid &&
	       table->processes[low].is_chosen;
}

static void choose_descendants(struct table *table, pid_t root)
{
	bool is_changed;
	do {
		is_changed = false;
		for (size_t i = 0; i < table->count; i++) {
			struct process *process = &table->processes[i];
			if (process->is_chosen || process->pid == root)
				continue;
			process->is_chosen =
				process->parent == root || is_chosen(table, process->parent);
			is_changed |= process->is_chosen;
		}
	} while (is_changed);
}

static bool is_own(pid_t pid)
{
	char name[16], text[1024];
	snprintf(name, sizeof(name), "%d", (int)pid);
	int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	read_text(proc_fd, name, "status", text, sizeof(text));
	fd_close(&proc_fd);
	const char *line = strstr(text, "\nUid:");
	unsigned uid;
	return line && sscanf(line, "\nUid: %u", &uid) == 1 && uid == getuid();
}

static void choose_session(struct table *table, pid_t session)
{
	for (size_t i = 0; i < table->count; i++) {
		struct process *process = &table->processes[i];
		process->is_chosen = process->session == session && !is_own(process->pid);
	}
}

/* Stops all that is chosen; says if any of it is new since the pass before. */
static bool stop_chosen(const struct table *now, const struct table *before)
{
	bool has_new = false;
	for (size_t i = 0; i < now->count; i++) {
		if (!now->processes[i].is_chosen)
			continue;
		has_new |= !is_chosen(before, now->processes[i].pid);
		kill(now->processes[i].pid, SIGSTOP);
	}
	return has_new;
}

/* Stops, then kills; returns how many. */
static size_t kill_chosen(choose choose_in, pid_t id)
{
	static struct table tables[2]; /* no memory is touched before the first use */
	struct table *now = &tables[0], *before = &tables[1];
	now->count = 0;
	for (unsigned pass = 0; pass < TREE_PASSES; pass++) {
		struct table *swap = before;
		before = now;
		now = swap;
		scan(now);
		choose_in(now, id);
		if (!stop_chosen(now, before))
			break;
	}
	size_t killed = 0;
	for (size_t i = 0; i < now->count; i++)
		if (now->processes[i].is_chosen && kill(now->processes[i].pid, SIGKILL) == 0)
			killed++;
	return killed;
}

void tree_kill_descendants(void)
{
	kill_chosen(choose_descendants, getpid());
}

void tree_kill_session_once(pid_t session)
{
	if (session > 1)
		kill_chosen(choose_session, session);
}

void tree_kill_session(pid_t session)
{
	const struct timespec pause = { .tv_nsec = SESSION_PAUSE_MS * 1000000L };
	for (unsigned round = 0; session > 1 && round < SESSION_ROUNDS; round++) {
		if (kill_chosen(choose_session, session) == 0)
			return;
		nanosleep(&pause, NULL);
	}
}
