/* The table of subcommands with what `help` says of them. */
#include "cli/command.h"

#define CONNECTION \
	"  --state DIR         the daemon's state folder; without it PANDASTACK_API and\n" \
	"                      PANDASTACK_API_KEY say which daemon and which key\n"

const struct command commands[] = {
	{ "env", env_command, "print the export lines that aim clients at a daemon",
		"usage: eval \"$(sandglass env --state DIR)\"\n"
		"\n"
		"  --state DIR     the daemon's state folder (sandglassd --state DIR)\n" },
	{ "run", run_command,
		"run Python code in a fresh sandbox, print what it prints, end the sandbox",
		"usage: sandglass run [OPTION]... FILE\n"
		"       sandglass run [OPTION]... -c CODE\n"
		"       sandglass run [OPTION]... -           (code from standard input)\n"
		"\n"
		"  -c CODE             the code itself\n"
		"  --state DIR         the daemon's state folder; without it PANDASTACK_API\n"
		"                      and\n"
		"                      PANDASTACK_API_KEY say which daemon and which key\n"
		"  --template NAME     the image to start from (default code-interpreter)\n"
		"  --timeout SECONDS   the longest the code may run (default: the daemon's)\n"
		"  --out DIR           where figures are saved (default: this folder)\n"
		"  --keep              leave the sandbox, and say its id\n"
		"\n"
		"Figures become files figure-1.png, figure-2.svg, ...; no file is\n"
		"overwritten. The exit status is the code's own; 124 when it ran past its\n"
		"limit, 125 when it could not be run at all, 128 + N when signal N ended\n"
		"this command.\n" },
	{ "create", create_command, "make a sandbox, print its id",
		"usage: sandglass create [OPTION]...\n"
		"\n"
		"  --template NAME     the image to start from (default: the first one\n"
		"                      served)\n"
		"  --name NAME         kept in its metadata\n"
		"  --ttl SECONDS       idle time after which it ends (default 300)\n"
		"  --persistent        it never ends by itself\n"
		"  --json              all that the daemon says of it\n" CONNECTION },
	{ "ps", ps_command, "list the sandboxes that run",
		"usage: sandglass ps [OPTION]...\n"
		"\n"
		"  -q, --quiet         ids only, whole\n"
		"  --full-ids          whole ids in the table\n"
		"  --json              the sandboxes as the API tells them, each with its\n"
		"                      metrics\n" CONNECTION "\n"
		"EXPIRES is the time until a sandbox ends by itself if nobody uses it, IDLE\n"
		"the time since it was used. CPU is of one core, since somebody last asked.\n"
		"Every command takes the beginning of an id where only one sandbox has it.\n" },
	{ "exec", exec_command, "run a command in a sandbox",
		"usage: sandglass exec [OPTION]... ID COMMAND [ARGUMENT]...\n"
		"\n"
		"  -i, --interactive   standard input is the command's, as fast as it reads\n"
		"  -t, --tty           at a terminal of its own, shown in this one\n"
		"  -w, --workdir DIR   where it starts (default /workspace)\n"
		"  --timeout SECONDS   the longest it may run (default 86400); not with -t\n"
		"  --json              output and exit code as one document, when it has\n"
		"                      ended\n" CONNECTION "\n"
		"The command gets its arguments as they are; for a line of shell: exec ID sh\n"
		"-c '...'. Output is text: bytes that are no UTF-8 come as U+FFFD (sandglass\n"
		"cp copies any bytes). The exit status is the command's; 124 when it ran\n"
		"past its limit, 125 when it could not be run, 128 + N when signal N ended\n"
		"it or this command. Ctrl-C ends the command with all it started.\n" },
	{ "shell", shell_command, "a shell in a sandbox, at this terminal",
		"usage: sandglass shell [OPTION]... [ID]\n"
		"\n"
		"  --template NAME     the image of the new sandbox\n"
		"  --keep              leave the new sandbox, and say its id\n" CONNECTION "\n"
		"Without ID a sandbox is made, and ended with the shell. A line that begins\n"
		"with ~. hangs up. The exit status is the shell's; 125 when there was none,\n"
		"129 after hanging up.\n" },
	{ "cp", cp_command, "copy files and folders into a sandbox or out of it",
		"usage: sandglass cp [--state DIR] FROM ID:TO\n"
		"       sandglass cp [--state DIR] ID:FROM TO\n"
		"\n" CONNECTION "\n"
		"- is standard input or output. Paths inside are below /workspace unless\n"
		"they begin with /. A target that is a folder gets the copy under its own\n"
		"name; else the target is the copy. A file is replaced when all of it has\n"
		"come, never in part. In folders, links and what is no file are left out,\n"
		"and said to be; what may be run stays so on the way in.\n" },
	{ "logs", logs_command, "what cells and commands of a sandbox printed",
		"usage: sandglass logs [OPTION]... ID\n"
		"\n"
		"  -f, --follow        and what comes, until the sandbox ends\n"
		"  -n, --tail N        begin with the last N lines\n"
		"  --stream NAME       stdout, stderr or both (default)\n"
		"  --json              {\"log\": ...}; with -f a line for each line: {\"line\":\n"
		"                      ...}\n" CONNECTION },
	{ "events", events_command, "what happened to a sandbox, or to all",
		"usage: sandglass events [OPTION]... [ID]\n"
		"\n"
		"  -f, --follow        and what comes, until the sandbox ends; without\n"
		"                      ID of all, those that begin later too\n"
		"  -n, --tail N        the last N only\n"
		"  --since ID          those after the event of that id\n"
		"  --json              {\"events\": [...]}; with -f a line for each event\n" CONNECTION },
	{ "top", top_command, "what the sandboxes use, drawn anew until stopped",
		"usage: sandglass top [OPTION]...\n"
		"\n"
		"  --once              one table, and done\n"
		"  -i, --interval S    seconds between tables (default 2)\n"
		"  --json              a line for each time\n" CONNECTION "\n"
		"q or Ctrl-C ends it. Where the output is no terminal the tables follow one\n"
		"another.\n" },
	{ "pause", pause_command, "let sandboxes stand still",
		"usage: sandglass pause [--state DIR] [--json] ID...\n"
		"\n" CONNECTION "\n"
		"A paused sandbox uses no processor, keeps its memory, and its idle time\n"
		"goes on.\n" },
	{ "resume", pause_command, "let paused sandboxes go on",
		"usage: sandglass resume [--state DIR] [--json] ID...\n"
		"\n" CONNECTION },
	{ "ports", ports_command, "what listens in a sandbox",
		"usage: sandglass ports [--state DIR] [--json] ID\n"
		"\n" CONNECTION "\n"
		"URL is for programs that send the key. In a browser on the daemon's host:\n"
		"http://PORT-ID.localhost:8080/, with the whole ID and the daemon's own\n"
		"port.\n" },
	{ "preview", preview_command, "an address for a server in a sandbox, that needs no key",
		"usage: sandglass preview [OPTION]... ID PORT\n"
		"\n"
		"  --ttl SECONDS       how long it is good (default 3600, at most 7 days)\n"
		"  --path PATH         only for this path and what is below it; the address\n"
		"                      is its\n"
		"  --json              with its end and its token\n" CONNECTION },
	{ "rm", rm_command, "end sandboxes",
		"usage: sandglass rm [OPTION]... ID...\n"
		"       sandglass rm --all\n"
		"\n"
		"  -a, --all           all of this key's owner\n"
		"  --json              {\"done\": [ids], \"failed\": [...]}\n" CONNECTION "\n"
		"Prints the id of each that ended. The exit status is 1 when one could not\n"
		"be ended.\n" },
	{ "doctor", doctor_command, "say what this host lacks, with the command that mends it",
		"usage: sandglass doctor [--json]\n"
		"\n"
		"  --json          for programs: {\"ok\": ..., \"checks\": [...]}\n"
		"\n"
		"Needs no daemon. Run it as the user who starts sandglassd. The exit status\n"
		"is 1 when something is missing that the daemon needs; warnings do not\n"
		"count.\n" },
	{ "key", key_command, "make keys for further owners, list them, remove them",
		"usage: sandglass key create --state DIR --owner NAME [--label TEXT] [--days N]\n"
		"       sandglass key list --state DIR\n"
		"       sandglass key remove --state DIR PREFIX\n"
		"\n"
		"  --state DIR     the daemon's state folder; who may write in it may do this\n"
		"  --owner NAME    whose key it is: an owner sees its own sandboxes only\n"
		"  --label TEXT    what it is for\n"
		"  --days N        it expires after that long (default: never)\n"
		"\n"
		"The key is printed once and kept nowhere: DIR/keys holds its hash. Owners\n"
		"make and revoke further keys of their own over the API (/v1/me/tokens);\n"
		"those are not listed here.\n" },
	{ "template", template_command, "build the images that sandboxes start from, or list them",
		"usage: sandglass template build NAME [--force] [--quiet]\n"
		"       sandglass template list\n"
		"       sandglass template build NAME --dockerfile FILE [--context DIR]\n"
		"                                [--size-mb N] [--state DIR]\n"
		"       sandglass template list --state DIR [--json]\n"
		"       sandglass template builds [--state DIR] [--json]\n"
		"       sandglass template logs BUILD [--state DIR]\n"
		"       sandglass template rm NAME [--state DIR]\n"
		"\n"
		"The first two are about the host's own images, which lie in\n"
		"$SANDGLASS_CACHE (default ~/.cache/sandglass). The others ask a daemon,\n"
		"with the operator's key:\n"
		"\n"
		"  --dockerfile FILE   what to build from; see docs/api.md for what it may\n"
		"                      say\n"
		"  --context DIR       the folder that COPY copies from (default: nothing to\n"
		"                      copy)\n"
		"  --size-mb N         the image may be that large (default 1024)\n"
		"  --state DIR         the daemon's state folder; without it PANDASTACK_API\n"
		"                      and\n"
		"                      PANDASTACK_API_KEY say which daemon and which key\n" },
	{ NULL },
};
