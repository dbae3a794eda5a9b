/*
 * See kernel.h. What a kernel and its children write to its two pipes: read into one scratch buffer
 * of the api, a bounded amount at each wake-up.
 */
#include "api/kernel_private.h"

#include "api/bash_lines.h"

#include <errno.h>
#include <unistd.h>

#define REST_MS 10
#define DRAIN_LIMIT ((size_t)1 << 20) /* more than a pipe holds */

/* Reads once; false when there is nothing (more). */
static bool read_stream(struct kernel *kernel, unsigned which, size_t *ret_size)
{
	struct loop_source *source = &kernel->streams[which].source;
	struct api *api = kernel_api(kernel);
	if (source->fd < 0)
		return false;
	ssize_t n = TEMP_FAILURE_RETRY(read(source->fd, api->frame, sizeof(api->frame)));
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			loop_close(source); /* all writers are gone */
		return false;
	}
	*ret_size = (size_t)n;
	if (kernel->session->language == LANGUAGE_BASH)
		n = (ssize_t)bash_lines_mend(api->frame, (size_t)n, kernel->pid);
	session_on_output(kernel->session, which, api->frame, (size_t)n);
	return true;
}

void kernel_watch_streams(struct kernel *kernel)
{
	for (unsigned which = 0; which < 2 && !kernel->is_paused; which++) {
		struct loop_source *source = &kernel->streams[which].source;
		struct error err = { 0 };
		int fd = source->fd;
		if (fd < 0 || source->loop)
			continue;
		if (!loop_watch(
			    &kernel_api(kernel)->loop, source, fd, EPOLLIN, kernel_on_stream, &err))
			source->fd = fd; /* read at the end of the run all the same */
	}
}

static void on_rested(struct loop_timer *timer)
{
	kernel_watch_streams(CONTAINER_OF(timer, struct kernel, rest));
}

/* Not even watched meanwhile: a hang-up would be told again and again. */
static void pause_streams(struct kernel *kernel)
{
	kernel->is_paused = true;
	for (unsigned i = 0; i < 2; i++)
		loop_forget(&kernel->streams[i].source);
}

void kernel_resume(struct kernel *kernel)
{
	if (!kernel->is_paused)
		return;
	kernel->is_paused = false;
	kernel_watch_streams(kernel);
}

/* Between cells, threads and children may go on writing. That is read, so that they do not hang,
 * and dropped; but slowly, so that they do not keep us busy. */
void kernel_on_stream(struct loop_source *source, uint32_t events)
{
	struct kernel_stream *stream = CONTAINER_OF(source, struct kernel_stream, source);
	struct kernel *kernel = stream->kernel;
	size_t size;
	bool has_read = read_stream(kernel, (unsigned)(stream - kernel->streams), &size);
	if (kernel->state == KERNEL_IDLE) {
		loop_forget(source);
		loop_timer_start(&kernel_api(kernel)->loop, &kernel->rest, REST_MS, on_rested);
	} else if (has_read && session_is_behind(kernel->session)) {
		pause_streams(kernel);
	}
}

void kernel_drain(struct kernel *kernel)
{
	for (unsigned which = 0; which < 2; which++) {
		size_t size, total = 0;
		while (total < DRAIN_LIMIT && read_stream(kernel, which, &size))
			total += size;
	}
}
