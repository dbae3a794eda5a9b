/* The part of `sandglass template` that asks a daemon: templates built from a Dockerfile. Each gets
 * the words behind `template`, its own first, and returns the exit status. */
#ifndef CLI_TEMPLATE_REMOTE_H
#define CLI_TEMPLATE_REMOTE_H

int template_remote_build(int argc, char **argv);
int template_remote_list(int argc, char **argv);
int template_remote_builds(int argc, char **argv);
int template_remote_logs(int argc, char **argv);
int template_remote_rm(int argc, char **argv);

#endif
