/*
 * See template_upload.h. Files go up as they lie below the folder, by their paths from there; links
 * are not followed, and `.git` is left out.
 */
#include "cli/template_upload.h"

#include "base/buf.h"
#include "base/fd.h"
#include "cli/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_LIMIT (1u << 20)
#define DOCKERFILE_LIMIT (64u << 10)
#define FILES_LIMIT 2000u
#define PATIENCE_S 300L

struct sending {
	CURL *easy;
	curl_mime *form;
	struct curl_slist *headers;
	struct buf answer;
};

static void sending_deinit(struct sending *sending)
{
	curl_mime_free(sending->form);
	curl_slist_free_all(sending->headers);
	if (sending->easy)
		curl_easy_cleanup(sending->easy);
	buf_deinit(&sending->answer);
}

static bool add_text(struct sending *sending, const char *name, const char *text)
{
	curl_mimepart *part = curl_mime_addpart(sending->form);
	return part && curl_mime_name(part, name) == CURLE_OK &&
	       curl_mime_data(part, text, CURL_ZERO_TERMINATED) == CURLE_OK;
}

static bool add_file(struct sending *sending, const FTSENT *entry, const char *name)
{
	curl_mimepart *part = curl_mime_addpart(sending->form);
	return part && curl_mime_name(part, name) == CURLE_OK &&
	       curl_mime_filedata(part, entry->fts_accpath) == CURLE_OK &&
	       curl_mime_filename(part, entry->fts_name) == CURLE_OK;
}

static bool add_entries(struct sending *sending, FTS *tree, struct error *err)
{
	unsigned count = 0;
	size_t root_size = 0;
	for (FTSENT *entry; (entry = fts_read(tree));) {
		if (entry->fts_level == 0)
			root_size = entry->fts_pathlen;
		if (entry->fts_info == FTS_D && strcmp(entry->fts_name, ".git") == 0)
			fts_set(tree, entry, FTS_SKIP);
		if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR ||
			entry->fts_info == FTS_NS)
			return error_from_os(
				err, entry->fts_errno, "cannot read '%.150s'", entry->fts_path);
		if (entry->fts_info != FTS_F)
			continue;
		const char *name = entry->fts_path + root_size;
		name += strspn(name, "/");
		if (++count > FILES_LIMIT)
			return error_set(err, ERROR_INVALID, "the context has more than %u files",
				FILES_LIMIT);
		if (!add_file(sending, entry, name))
			return error_set(
				err, ERROR_INVALID, "cannot send '%.150s'", entry->fts_path);
	}
	return true;
}

static bool add_context(struct sending *sending, const char *folder, struct error *err)
{
	char *roots[] = { (char *)folder, NULL };
	cleanup_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FTS *tree = fd < 0 ? NULL : fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	if (!tree)
		return error_from_os(err, errno, "cannot read the context '%.150s'", folder);
	bool is_added = add_entries(sending, tree, err);
	fts_close(tree);
	return is_added;
}

static size_t on_bytes(char *bytes, size_t one, size_t size, void *data)
{
	struct sending *sending = data;
	return buf_append(&sending->answer, bytes, one * size) ? one * size : 0;
}

static bool prepare(struct sending *sending, const struct target *target, struct error *err)
{
	char url[512], authorization[sizeof(target->key) + 32];
	sending->answer = buf_make(ANSWER_LIMIT);
	sending->easy = curl_easy_init();
	if (!sending->easy)
		return error_no_memory(err), false;
	snprintf(url, sizeof(url), "%s/v1/templates/build", target->api);
	snprintf(authorization, sizeof(authorization), "Authorization: Bearer %s", target->key);
	sending->form = curl_mime_init(sending->easy);
	sending->headers = curl_slist_append(NULL, authorization);
	if (!sending->form || !sending->headers || !curl_slist_append(sending->headers, "Expect:"))
		return error_no_memory(err), false;
	curl_easy_setopt(sending->easy, CURLOPT_URL, url);
	curl_easy_setopt(sending->easy, CURLOPT_HTTPHEADER, sending->headers);
	curl_easy_setopt(sending->easy, CURLOPT_USERAGENT, "sandglass/" SANDGLASS_VERSION);
	curl_easy_setopt(sending->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(sending->easy, CURLOPT_MIME_OPTIONS, (long)CURLMIMEOPT_FORMESCAPE);
	curl_easy_setopt(sending->easy, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1");
	curl_easy_setopt(sending->easy, CURLOPT_TIMEOUT, PATIENCE_S);
	curl_easy_setopt(sending->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(sending->easy, CURLOPT_WRITEDATA, sending);
	return true;
}

static bool fill(struct sending *sending, const struct template_upload *upload, struct error *err)
{
	cleanup_free char *text =
		fd_read_file(AT_FDCWD, upload->dockerfile, DOCKERFILE_LIMIT + 1, NULL, err);
	if (!text)
		return error_context(err, "the Dockerfile");
	if (!add_text(sending, "name", upload->name) || !add_text(sending, "dockerfile", text) ||
		(upload->size_mb && !add_text(sending, "size_mb", upload->size_mb)))
		return error_no_memory(err), false;
	return !upload->context || add_context(sending, upload->context, err);
}

static json_t *hand_over(struct sending *sending, const struct target *target, struct error *err)
{
	curl_easy_setopt(sending->easy, CURLOPT_MIMEPOST, sending->form);
	CURLcode code = curl_easy_perform(sending->easy);
	if (code != CURLE_OK) {
		error_set(err, ERROR_INTERNAL, "%s cannot be asked: %s", target->api,
			curl_easy_strerror(code));
		error_hint(err, "is sandglassd running? its log is what it writes to stderr");
		return NULL;
	}
	struct http_answer answer = { 0 };
	curl_easy_getinfo(sending->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	answer.json = json_loadb(sending->answer.bytes, sending->answer.size, 0, NULL);
	if (answer.status == 202 && json_is_object(answer.json))
		return answer.json;
	http_answer_error(&answer, err);
	http_answer_deinit(&answer);
	return NULL;
}

json_t *template_upload(
	const struct target *target, const struct template_upload *upload, struct error *err)
{
	struct sending sending = { 0 };
	json_t *build = NULL;
	if (prepare(&sending, target, err) && fill(&sending, upload, err))
		build = hand_over(&sending, target, err);
	sending_deinit(&sending);
	return build;
}
