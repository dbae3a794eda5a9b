/* Reading small files of /proc. */
#include "probe.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_LIMIT (1 << 20)
#define MOUNTS_LIMIT 256

char *read_text(const char *path, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	char *text = malloc(FILE_LIMIT + 1);
	size_t size = 0;
	while (text && size < FILE_LIMIT) {
		ssize_t n = read(fd, text + size, FILE_LIMIT - size);
		if (n <= 0)
			break;
		size += (size_t)n;
	}
	close(fd);
	if (!text)
		return NULL;
	text[size] = 0;
	if (ret_size)
		*ret_size = size;
	return text;
}

char **mount_points(void)
{
	static char *points[MOUNTS_LIMIT + 1];
	char *text = read_text("/proc/self/mountinfo", NULL);
	char *rest = NULL;
	unsigned count = 0;
	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line && count < MOUNTS_LIMIT;
		line = strtok_r(NULL, "\n", &rest)) {
		char *words = NULL;
		char *word = strtok_r(line, " ", &words);
		for (int i = 0; i < 4 && word; i++)
			word = strtok_r(NULL, " ", &words);
		if (word)
			points[count++] = word;
	}
	points[count] = NULL;
	return points;
}
