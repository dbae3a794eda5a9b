/* Requests to init. First byte: the number of descriptors, and in its highest bit whether the
 * packet is filled up to the right size with zeros; then the packet. */
#include "base/macros.h"
#include "init/path.h"
#include "init/request.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static union {
		char bytes[8192];
		uint64_t align;
	} packet;
	const struct inside_request *request;
	enum request_kind kind;
	struct inside_file_answer answer;
	char folder[INSIDE_PATH_SIZE];
	size_t packet_size = size ? MIN(size - 1, sizeof(packet)) : 0;
	memset(&packet, 0, sizeof(packet));
	if (size)
		memcpy(&packet, bytes + 1, packet_size);
	if (size && bytes[0] & 0x80)
		packet_size = sizeof(*request);
	request = request_check(&packet, packet_size, size ? bytes[0] & 0x7f : 0, &kind);
	if (request && kind == REQUEST_FILES && path_check(request->path, &answer))
		path_folder(request->path, folder);
	return 0;
}
