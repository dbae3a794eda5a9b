/*
 * `sandglass top`: what all sandboxes use, the busiest first, drawn anew every few seconds. At a
 * terminal the screen is the table's until the end; elsewhere the tables follow one another.
 */
#include "cli/command.h"
#include "cli/human.h"
#include "cli/options.h"
#include "cli/survey.h"
#include "cli/tty.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#define INTERVAL_S 2
#define LONGEST_INTERVAL_S 3600
#define HEADER_ROWS 3
#define SCREEN_BEGIN "\033[?1049h\033[?25l"
#define SCREEN_END "\033[?25h\033[?1049l"
#define OUT_LIMIT ((size_t)64 << 20)

struct top {
	const char *state;
	bool is_json, is_once;
	int64_t interval_s;
	struct daemon daemon;
	struct tty tty;
	bool is_screen, is_over;
	int signal;
};

static const struct survey_column columns[] = {
	{ "ID", SURVEY_ID },
	{ "TEMPLATE", SURVEY_TEXT, "template" },
	{ "STATE", SURVEY_STATE, "status" },
	{ "CPU", SURVEY_PERCENT, "host_cpu_percent" },
	{ "MEMORY", SURVEY_BYTES, "memory_bytes" },
	{ "PEAK", SURVEY_BYTES, "memory_peak_bytes" },
	{ "LIMIT", SURVEY_BYTES, "memory_limit_bytes" },
	{ "PROCS", SURVEY_COUNT, "processes" },
	{ "DISK", SURVEY_BYTES, "disk_bytes" },
	{ "AGE", SURVEY_AGE },
};

/* ---- a table ---- */

static int by_use(const void *a, const void *b)
{
	const struct surveyed *one = a, *other = b;
	double one_cpu = surveyed_number(one, "host_cpu_percent");
	double other_cpu = surveyed_number(other, "host_cpu_percent");
	double one_memory = surveyed_number(one, "memory_bytes");
	double other_memory = surveyed_number(other, "memory_bytes");
	if (one_cpu != other_cpu)
		return one_cpu < other_cpu ? 1 : -1;
	return (one_memory < other_memory) - (one_memory > other_memory);
}

static bool write_sum(const struct survey *survey, struct buf *out)
{
	double cpu = 0, memory = 0, processes = 0;
	char text[HUMAN_SIZE];
	for (size_t i = 0; i < survey->count; i++) {
		const struct surveyed *entry = &survey->entries[i];
		cpu += MAX(surveyed_number(entry, "host_cpu_percent"), 0);
		memory += MAX(surveyed_number(entry, "memory_bytes"), 0);
		processes += MAX(surveyed_number(entry, "processes"), 0);
	}
	human_bytes(memory, text);
	return buf_printf(out, "%zu sandbox%s, cpu %.1f%%, memory %s, %.0f process%s\n\n",
		survey->count, survey->count == 1 ? "" : "es", cpu, text, processes,
		processes == 1 ? "" : "es");
}

static bool write_tables(const struct top *top, const struct survey *survey, struct buf *out)
{
	uint16_t rows = 0, width = 0;
	if (top->is_screen)
		tty_size(&rows, &width);
	const struct table_style style = { .has_colour = human_has_colour(stdout),
		.width = width,
		.height = top->is_screen ? (unsigned)MAX(rows - HEADER_ROWS - 1, 1) : 0 };
	return write_sum(survey, out) &&
	       survey_write_table(survey, columns, ARRAY_SIZE(columns), &style, out);
}

/* ---- on the screen ---- */

/* Each line clears what was there behind it, the end what was below. */
static void draw(const struct buf *text)
{
	fputs("\033[H", stdout);
	for (size_t at = 0; at < text->size;) {
		const char *end = memchr(text->bytes + at, '\n', text->size - at);
		size_t size = end ? (size_t)(end - text->bytes) - at : text->size - at;
		fwrite(text->bytes + at, 1, size, stdout);
		fputs("\033[K\n", stdout);
		at += size + 1;
	}
	fputs("\033[J", stdout);
	fflush(stdout);
}

static void print_document(const struct survey *survey)
{
	json_t *all = json_array();
	for (size_t i = 0; i < survey->count; i++)
		if (survey->entries[i].metrics)
			json_array_append_new(
				all, json_pack("{s:s, s:s, s:O}", "id", survey->entries[i].id,
					     "status", surveyed_text(&survey->entries[i], "status"),
					     "metrics", survey->entries[i].metrics));
	json_t *document =
		json_pack("{s:I, s:o}", "time_ms", (json_int_t)clock_wall_ms(), "sandboxes", all);
	json_dumpf(document, stdout, JSON_COMPACT | COMMAND_JSON);
	putchar('\n');
	json_decref(document);
}

static bool show(struct top *top, const struct survey *survey, bool is_first, struct error *err)
{
	cleanup_buf struct buf out = buf_make(OUT_LIMIT);
	if (top->is_json) {
		print_document(survey);
	} else {
		if (!top->is_screen && !is_first)
			putchar('\n');
		if (!write_tables(top, survey, &out))
			return error_no_memory(err), false;
		if (top->is_screen)
			draw(&out);
		else
			fwrite(out.bytes, 1, out.size, stdout);
	}
	if (fflush(stdout) != 0)
		top->is_over = true; /* nobody reads it any more */
	return true;
}

/* ---- time ---- */

/* Stops as an ordinary program would, with the terminal as it was meanwhile. */
static void stop(struct top *top)
{
	if (top->is_screen) {
		fputs(SCREEN_END, stdout);
		fflush(stdout);
		tty_restore(&top->tty);
	}
	raise(SIGSTOP);
	if (top->is_screen && tty_set(&top->tty, TTY_KEYS, NULL))
		fputs(SCREEN_BEGIN, stdout);
}

static void on_signals(struct top *top)
{
	struct signalfd_siginfo info;
	while (read(top->daemon.signal_fd, &info, sizeof(info)) == sizeof(info)) {
		bool is_end = info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
			      info.ssi_signo == SIGHUP;
		if (is_end)
			top->signal = (int)info.ssi_signo;
		else if (info.ssi_signo == SIGTSTP)
			stop(top);
	}
	top->is_over = top->is_over || top->signal;
}

static void on_keys(struct top *top)
{
	char key = 0;
	ssize_t n = read(STDIN_FILENO, &key, 1);
	top->is_over = top->is_over || n <= 0 || key == 'q' || key == 'Q';
}

/* Until the next table is due; earlier for a key, a signal, another size. */
static void wait_for_next(struct top *top)
{
	int64_t end_ms = clock_monotonic_ms() + top->interval_s * 1000, left_ms;
	bool is_woken = false;
	while (!top->is_over && !is_woken && (left_ms = end_ms - clock_monotonic_ms()) > 0) {
		struct pollfd waits[] = {
			{ .fd = top->daemon.signal_fd, .events = POLLIN },
			{ .fd = top->tty.is_changed ? STDIN_FILENO : -1, .events = POLLIN },
		};
		if (poll(waits, ARRAY_SIZE(waits), (int)left_ms) < 0 && errno != EINTR)
			return;
		is_woken = waits[0].revents || waits[1].revents;
		if (waits[0].revents)
			on_signals(top);
		if (waits[1].revents)
			on_keys(top);
	}
}

static bool watch(struct top *top, struct error *err)
{
	bool is_good = true;
	for (bool is_first = true; is_good && !top->is_over; is_first = false) {
		struct survey survey;
		is_good = survey_take(&survey, &top->daemon, true, err);
		if (!is_good)
			break;
		qsort(survey.entries, survey.count, sizeof(*survey.entries), by_use);
		is_good = show(top, &survey, is_first, err);
		survey_deinit(&survey);
		top->is_over = top->is_over || top->is_once;
		wait_for_next(top);
	}
	return is_good;
}

/* The terminal is as it was afterwards, whatever happens in between. */
static bool watch_on_screen(struct top *top, struct error *err)
{
	top->is_screen = isatty(STDOUT_FILENO) && !top->is_once && !top->is_json;
	if (!top->is_screen)
		return watch(top, err);
	if (!tty_set(&top->tty, TTY_KEYS, err))
		return false;
	fputs(SCREEN_BEGIN, stdout);
	bool is_good = watch(top, err);
	fputs(SCREEN_END, stdout);
	fflush(stdout);
	tty_restore(&top->tty);
	return is_good;
}

int top_command(int argc, char **argv)
{
	struct top top = { .interval_s = INTERVAL_S };
	const struct option_spec specs[] = { OPTION_STATE(&top.state), OPTION_JSON(&top.is_json),
		{ "once", 0, OPTION_FLAG, &top.is_once },
		{ "interval", 'i', OPTION_NUMBER, &top.interval_s, 1, LONGEST_INTERVAL_S } };
	int first = options_parse("top", argc, argv, specs, ARRAY_SIZE(specs), 0);
	struct error err = { 0 };
	if (first < 0)
		return EXIT_MISUSED;
	bool is_good = daemon_open(&top.daemon, top.state, &err) &&
		       daemon_hold_signals(&top.daemon, true, &err) && watch_on_screen(&top, &err);
	daemon_close(&top.daemon);
	if (!is_good)
		return command_fail("top", &err);
	return top.signal && top.signal != SIGINT ? 128 + top.signal : EXIT_OK;
}
