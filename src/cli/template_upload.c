/*
 * See template_upload.h. Files go up as they lie below the folder, by their paths from there; links
 * are not followed, and `.git` is left out.
 */
#include "cli/template_upload.h"

#include "cli/http_private.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>

#define DOCKERFILE_LIMIT (64u << 10)
#define FILES_LIMIT 2000u
#define PATIENCE_S 300L

static bool add_text(curl_mime *form, const char *name, const char *text)
{
	curl_mimepart *part = curl_mime_addpart(form);
	return part && curl_mime_name(part, name) == CURLE_OK &&
	       curl_mime_data(part, text, CURL_ZERO_TERMINATED) == CURLE_OK;
}

static bool add_file(curl_mime *form, const FTSENT *entry, const char *name)
{
	curl_mimepart *part = curl_mime_addpart(form);
	return part && curl_mime_name(part, name) == CURLE_OK &&
	       curl_mime_filedata(part, entry->fts_accpath) == CURLE_OK &&
	       curl_mime_filename(part, entry->fts_name) == CURLE_OK;
}

static bool add_entries(curl_mime *form, FTS *tree, struct error *err)
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
		if (!add_file(form, entry, name))
			return error_set(
				err, ERROR_INVALID, "cannot send '%.150s'", entry->fts_path);
	}
	return true;
}

static bool add_context(curl_mime *form, const char *folder, struct error *err)
{
	char *roots[] = { (char *)folder, NULL };
	cleanup_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FTS *tree = fd < 0 ? NULL : fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	if (!tree)
		return error_from_os(err, errno, "cannot read the context '%.150s'", folder);
	bool is_added = add_entries(form, tree, err);
	fts_close(tree);
	return is_added;
}

static bool fill(curl_mime *form, const struct template_upload *upload, struct error *err)
{
	cleanup_free char *text =
		fd_read_file(AT_FDCWD, upload->dockerfile, DOCKERFILE_LIMIT + 1, NULL, err);
	if (!text)
		return error_context(err, "the Dockerfile");
	if (!add_text(form, "name", upload->name) || !add_text(form, "dockerfile", text) ||
		(upload->size_mb && !add_text(form, "size_mb", upload->size_mb)))
		return error_no_memory(err), false;
	return !upload->context || add_context(form, upload->context, err);
}

json_t *template_upload(
	struct daemon *daemon, const struct template_upload *upload, struct error *err)
{
	struct http_answer answer = { 0 };
	curl_mime *form = curl_mime_init(daemon->client->easy);
	struct http_call call = { .method = "POST",
		.path = "/templates/build",
		.form = form,
		.stop_fd = -1,
		.limit_s = PATIENCE_S };
	if (!form)
		return error_no_memory(err);
	bool is_good =
		fill(form, upload, err) && http_call(daemon->client, &call, &answer, err) &&
		(answer.status < 400 || http_answer_error(&answer, err)) &&
		(answer.json || error_set(err, ERROR_INTERNAL, "the daemon's answer is no JSON"));
	curl_mime_free(form);
	json_t *build = is_good ? json_incref(answer.json) : NULL;
	http_answer_deinit(&answer);
	return build;
}
