/* See command_input.h. The pipe is watched only while something waits: one that nobody reads any
 * more would report that all the time. */
#include "api/command_input.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void command_input_init(struct command_input *input)
{
	*input =
		(struct command_input){ .source.fd = -1, .waiting = buf_make(COMMAND_INPUT_LIMIT) };
}

void command_input_deinit(struct command_input *input)
{
	loop_close(&input->source);
	buf_deinit(&input->waiting);
}

bool command_input_open(struct command_input *input, struct loop *loop,
	command_input_on_taken on_taken, int *ret_fd, struct error *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_from_os(err, errno, "cannot make a pipe");
	fd_set_nonblocking(ends[1], true);
	*ret_fd = ends[0];
	input->source.fd = ends[1];
	input->loop = loop;
	input->on_taken = on_taken;
	return true;
}

/* Writes what can be; how much that is. */
static size_t write_some(struct command_input *input)
{
	size_t taken = 0;
	while (taken < input->waiting.size && !input->is_left) {
		ssize_t n = write(input->source.fd, input->waiting.bytes + taken,
			input->waiting.size - taken);
		if (n > 0)
			taken += (size_t)n;
		else if (errno != EINTR && errno != EAGAIN)
			input->is_left = true;
		else if (errno == EAGAIN)
			break;
	}
	return input->is_left ? input->waiting.size : taken;
}

static void on_room(struct loop_source *source, uint32_t events);

static void wait_for_room(struct command_input *input)
{
	int fd = input->source.fd;
	if (input->source.loop || fd < 0 ||
		loop_watch(input->loop, &input->source, fd, EPOLLOUT, on_room, NULL))
		return;
	input->source.fd = fd;
	input->is_left = true; /* without memory: the command sees an end */
	fd_close(&input->source.fd);
}

static void pump(struct command_input *input)
{
	size_t taken = write_some(input);
	buf_consume(&input->waiting, taken);
	if (input->waiting.size > 0)
		wait_for_room(input);
	else
		loop_forget(&input->source);
	if (input->waiting.size == 0 && (input->is_ended || input->is_left))
		loop_close(&input->source);
	if (taken > 0)
		input->on_taken(input, taken);
}

static void on_room(struct loop_source *source, uint32_t events)
{
	pump(CONTAINER_OF(source, struct command_input, source));
}

bool command_input_add(struct command_input *input, const char *bytes, size_t size)
{
	if (input->is_ended || !buf_append(&input->waiting, bytes, size))
		return false;
	pump(input);
	return true;
}

void command_input_end(struct command_input *input)
{
	input->is_ended = true;
	if (input->waiting.size == 0)
		loop_close(&input->source);
}
