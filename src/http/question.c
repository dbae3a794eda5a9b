/* What was asked, as its owner sees it. */
#include "http/private.h"

#include <string.h>
#include <strings.h>

const char *http_request_method(const struct http_request *request)
{
	return request->method;
}

const char *http_request_path(const struct http_request *request)
{
	return request->target.path;
}

const char *http_request_segment(const struct http_request *request, unsigned index)
{
	return index < request->target.segment_count ? request->target.segments[index] : NULL;
}

unsigned http_request_segments(const struct http_request *request)
{
	return request->target.segment_count;
}

const char *http_request_query(
	const struct http_request *request, const char *name, size_t *ret_size)
{
	size_t size = strlen(name);
	for (unsigned i = 0; i < request->target.parameter_count; i++) {
		const struct target_parameter *parameter = &request->target.parameters[i];
		if (parameter->name_size != size || memcmp(parameter->name, name, size) != 0)
			continue;
		if (ret_size)
			*ret_size = parameter->value_size;
		return parameter->value;
	}
	return NULL;
}

const char *http_request_header(const struct http_request *request, const char *name)
{
	for (unsigned i = 0; i < request->header_count; i++)
		if (strcasecmp(request->headers[i].name, name) == 0)
			return request->headers[i].value;
	return NULL;
}

bool http_request_header_at(const struct http_request *request, unsigned index,
	const char **ret_name, const char **ret_value)
{
	if (index >= request->header_count)
		return false;
	*ret_name = request->headers[index].name;
	*ret_value = request->headers[index].value;
	return true;
}

bool http_list_names(const char *list, const char *token)
{
	size_t token_size = strlen(token);
	while (*list) {
		list += strspn(list, " \t,");
		size_t size = strcspn(list, " \t,");
		if (size > 0 && size == token_size && strncasecmp(list, token, size) == 0)
			return true;
		list += size;
	}
	return false;
}

bool http_request_names(const struct http_request *request, const char *header, const char *token)
{
	for (unsigned i = 0; i < request->header_count; i++)
		if (strcasecmp(request->headers[i].name, header) == 0 &&
			http_list_names(request->headers[i].value, token))
			return true;
	return false;
}

const char *http_request_raw_target(const struct http_request *request)
{
	return request->raw_target;
}

unsigned http_request_header_count(const struct http_request *request, const char *name)
{
	unsigned n = 0;
	for (unsigned i = 0; i < request->header_count; i++)
		n += strcasecmp(request->headers[i].name, name) == 0;
	return n;
}

int64_t http_request_content_length(const struct http_request *request)
{
	return request->content_length;
}

const char *http_request_body(const struct http_request *request, size_t *ret_size)
{
	if (ret_size)
		*ret_size = request->body.size;
	return request->body.bytes ? request->body.bytes : "";
}

const char *http_request_id(const struct http_request *request)
{
	return request->id;
}

void *http_request_server_owner(const struct http_request *request)
{
	return request->server->config.owner;
}

void http_request_set_data(struct http_request *request, void *data)
{
	request->data = data;
}

void *http_request_data(const struct http_request *request)
{
	return request->data;
}

void *http_request_alloc(struct http_request *request, size_t size)
{
	return arena_alloc(&request->arena, size);
}
