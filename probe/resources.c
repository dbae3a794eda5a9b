/*
 * Using things up: each subcommand takes all it can get of one thing, says how much that was and
 * which errno ended it. With `hold` it keeps what it has until it is killed, so that another
 * sandbox can be looked at meanwhile.
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024 * 1024)

/* Prints what was had, and keeps it when asked to. */
static int finish(int64_t count, int error, bool is_holding)
{
	json_open(NULL, '{');
	json_number("count", count);
	json_text("error", errno_name(error));
	json_close('}');
	if (is_holding) {
		putchar('\n');
		fflush(stdout);
		for (;;)
			pause();
	}
	return 0;
}

static bool wants_hold(int argc, char **argv)
{
	return argc > 1 && strcmp(argv[argc - 1], "hold") == 0;
}

/* Takes until `take` fails or the bound is reached. */
static int64_t take_all(bool (*take)(int64_t index), int64_t bound, int *ret_error)
{
	int64_t count = 0;
	errno = 0;
	while (count < bound && take(count))
		count++;
	*ret_error = count < bound ? errno : 0;
	return count;
}

static int run_taking(int argc, char **argv, bool (*take)(int64_t), int64_t bound)
{
	int error;
	int64_t count = take_all(take, bound, &error);
	return finish(count, error, wants_hold(argc, argv));
}

/* ---- descriptors, queues, signals, watches ---- */
static bool take_descriptor(int64_t index)
{
	return open("/dev/null", O_RDONLY) >= 0;
}

static int run_fds(int argc, char **argv)
{
	return run_taking(argc, argv, take_descriptor, 2000000);
}

static bool take_queue(int64_t index)
{
	char name[64];
	struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 1024 };
	snprintf(name, sizeof(name), "/probe-%jd", (intmax_t)index);
	return mq_open(name, O_CREAT | O_RDWR, 0600, &small) >= 0;
}

static int run_queues(int argc, char **argv)
{
	return run_taking(argc, argv, take_queue, 100000);
}

static bool take_signal(int64_t index)
{
	union sigval value = { .sival_int = (int)index };
	return sigqueue(getpid(), SIGRTMIN + 1, value) == 0;
}

static int run_sigpending(int argc, char **argv)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return run_taking(argc, argv, take_signal, 2000000);
}

static bool take_inotify(int64_t index)
{
	return inotify_init1(0) >= 0;
}

static int run_inotify(int argc, char **argv)
{
	return run_taking(argc, argv, take_inotify, 1000000);
}

static bool take_watch(int64_t index)
{
	static int fd = -1;
	char path[64];
	if (fd < 0)
		fd = inotify_init1(0);
	snprintf(path, sizeof(path), "/tmp/probe-watch-%jd", (intmax_t)index);
	int file = open(path, O_CREAT | O_WRONLY, 0600);
	if (file < 0)
		return false;
	close(file);
	return inotify_add_watch(fd, path, IN_MODIFY) >= 0;
}

static int run_watches(int argc, char **argv)
{
	return run_taking(argc, argv, take_watch, 1000000);
}

static bool take_terminal(int64_t index)
{
	return open("/dev/ptmx", O_RDWR | O_NOCTTY) >= 0;
}

static int run_terminals(int argc, char **argv)
{
	return run_taking(argc, argv, take_terminal, 100000);
}

static bool take_timer(int64_t index)
{
	timer_t timer;
	return timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0;
}

static int run_timers(int argc, char **argv)
{
	return run_taking(argc, argv, take_timer, 1000000);
}

/* ---- processes ---- */
#define PROCESSES_LIMIT 100000
static pid_t children[PROCESSES_LIMIT];

static bool take_process(int64_t index)
{
	pid_t pid = children[index] = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	return pid > 0;
}

static int run_forks(int argc, char **argv)
{
	int error;
	int64_t count = take_all(take_process, PROCESSES_LIMIT, &error);
	bool is_holding = wants_hold(argc, argv);
	for (int64_t i = 0; i < count && !is_holding; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	return finish(count, error, is_holding);
}

/* Forks for ever, as a bomb does; never ends by itself. */
static int run_bomb(int argc, char **argv)
{
	for (volatile bool is_going = true; is_going;)
		fork();
	return 0;
}

/* ---- memory ---- */
static bool touch_pages(int64_t index)
{
	char *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return false;
	memset(pages, 1, MIB);
	return true;
}

static bool touch_memfd(int64_t index)
{
	static int fd = -1;
	static char bytes[MIB];
	if (fd < 0)
		fd = memfd_create("probe", 0);
	memset(bytes, 1, sizeof(bytes));
	return write(fd, bytes, sizeof(bytes)) == sizeof(bytes);
}

static bool touch_shared(int64_t index)
{
	int id = shmget(IPC_PRIVATE, MIB, 0600);
	if (id < 0)
		return false;
	char *pages = shmat(id, NULL, 0);
	if (pages == (char *)-1)
		return false;
	memset(pages, 1, MIB);
	return true;
}

/* Fills pipes: 64 KiB each, and the descriptors are few. */
static bool fill_pipe(int64_t index)
{
	static char bytes[65536];
	int ends[2];
	if (pipe2(ends, O_NONBLOCK) < 0)
		return false;
	return write(ends[1], bytes, sizeof(bytes)) > 0;
}

static bool fill_socket(int64_t index)
{
	static char bytes[65536];
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
		return false;
	while (write(ends[0], bytes, sizeof(bytes)) > 0)
		continue;
	return true;
}

static const struct {
	const char *name;
	bool (*take)(int64_t);
} kinds_of_memory[] = {
	{ "private", touch_pages },
	{ "memfd", touch_memfd },
	{ "sysv", touch_shared },
	{ "pipes", fill_pipe },
	{ "sockets", fill_socket },
};

static int run_memory(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	for (size_t i = 0; i < ARRAY_SIZE(kinds_of_memory); i++) {
		if (strcmp(kinds_of_memory[i].name, argv[1]) == 0)
			return run_taking(argc, argv, kinds_of_memory[i].take, atoll(argv[2]));
	}
	return 2;
}

/* ---- files ---- */
static int run_tmpfs_fill(int argc, char **argv)
{
	static char bytes[MIB];
	char path[512];
	if (argc < 2)
		return 2;
	snprintf(path, sizeof(path), "%s/probe-fill", argv[1]);
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	if (fd < 0)
		return finish(0, errno, false);
	int64_t count = 0;
	ssize_t n;
	while ((n = write(fd, bytes, sizeof(bytes))) > 0)
		count += n;
	int error = n < 0 ? errno : 0;
	close(fd);
	if (!wants_hold(argc, argv))
		unlink(path);
	return finish(count, error, wants_hold(argc, argv));
}

static const char *inode_folder;

static bool take_inode(int64_t index)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/probe-%jd", inode_folder, (intmax_t)index);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Creates empty files until failure; then one is deleted and one created; then all are deleted. */
static int run_inode_fill(int argc, char **argv)
{
	char path[512];
	int error;
	if (argc < 2)
		return 2;
	inode_folder = argv[1];
	int64_t count = take_all(take_inode, 5000000, &error);
	snprintf(path, sizeof(path), "%s/probe-0", inode_folder);
	unlink(path);
	bool recovers = take_inode(0);
	for (int64_t i = 0; i < count && !wants_hold(argc, argv); i++) {
		snprintf(path, sizeof(path), "%s/probe-%jd", inode_folder, (intmax_t)i);
		unlink(path);
	}
	json_open(NULL, '{');
	json_number("count", count);
	json_text("error", errno_name(error));
	json_text("after one deletion", recovers ? "OK" : errno_name(errno));
	json_close('}');
	return 0;
}

/* ---- processor ---- */
static int64_t now_us(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Busy children for a while; tells the processor time they got against the wall's. */
static int run_spin(int argc, char **argv)
{
	int workers = argc > 1 ? atoi(argv[1]) : 4;
	int64_t wall_us = (argc > 2 ? atoi(argv[2]) : 1000) * 1000LL;
	int64_t start = now_us(CLOCK_MONOTONIC);
	for (int i = 0; i < workers; i++) {
		if (fork() == 0) {
			while (now_us(CLOCK_MONOTONIC) - start < wall_us)
				continue;
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		continue;
	struct rusage used;
	getrusage(RUSAGE_CHILDREN, &used);
	json_open(NULL, '{');
	json_number("wall_us", now_us(CLOCK_MONOTONIC) - start);
	json_number("cpu_us", used.ru_utime.tv_sec * 1000000 + used.ru_utime.tv_usec +
				      used.ru_stime.tv_sec * 1000000 + used.ru_stime.tv_usec);
	json_close('}');
	return 0;
}

/* ---- crashing: for core files ---- */
static int run_crash(int argc, char **argv)
{
	struct rlimit value;
	getrlimit(RLIMIT_CORE, &value);
	value.rlim_cur = value.rlim_max;
	setrlimit(RLIMIT_CORE, &value);
	fflush(stdout);
	volatile uintptr_t nowhere = 8;
	*(volatile int *)nowhere = 1;
	return 0;
}

const struct probe_command resource_commands[] = {
	{ "fds", run_fds, "[hold]: descriptors" },
	{ "queues", run_queues, "[hold]: POSIX message queues" },
	{ "sigpending", run_sigpending, "[hold]: queued signals" },
	{ "inotify", run_inotify, "[hold]: inotify instances" },
	{ "watches", run_watches, "[hold]: inotify watches" },
	{ "terminals", run_terminals, "[hold]: pseudo-terminals" },
	{ "timers", run_timers, "[hold]: POSIX timers" },
	{ "forks", run_forks, "[hold]: processes" },
	{ "bomb", run_bomb, "forks without end" },
	{ "memory", run_memory,
		"private|memfd|sysv|pipes|sockets COUNT [hold]: MiB, or full pipes" },
	{ "tmpfs-fill", run_tmpfs_fill, "FOLDER [hold]: one file as large as it gets" },
	{ "inode-fill", run_inode_fill, "FOLDER [hold]: as many empty files as there can be" },
	{ "spin", run_spin, "[WORKERS [MS]]: busy processes" },
	{ "crash", run_crash, "a segmentation fault with the largest core limit" },
	{ 0 },
};
