# Read once by the shell of a bash session, before its first cell. See runner.c.
#
# The shell is an interactive one that reads from a pipe: then an interrupt, ${x:?}, set -u and a failed exec
# all lead back to its prompt, from any depth, instead of ending it. What is left are exit and set -e. `exit` is
# a function here, and for set -e there is a trap; both note the code and interrupt the shell itself. In
# subshells they do what they always do.
#
# The runner sends SIGURG along with SIGINT, since the shell forgets an interrupt when the program that it waits for
# ends well just then, or when the user has a trap.

# Back to the prompt, from any depth. A trap of the user's is brought back afterwards.
__sandglass_jump() {
	__sandglass_trap=$(builtin trap -p INT)
	builtin trap - INT
	builtin kill -INT $$
}

__sandglass_interrupt() {
	if [[ " ${FUNCNAME[*]} " == *" source "* ]]; then # else the cell is over
		__sandglass_jump
	fi
}

__sandglass_leave() {
	__sandglass_code=$1
	builtin set +e
	builtin set -- "$1" "$(builtin trap -p EXIT)"
	if [[ -n $2 ]]; then
		# a script's clean-up: it has come to its end
		builtin trap - EXIT
		builtin eval "builtin set -- $1 ${2#trap -- }"
		(builtin exit "$1")
		builtin eval "$2"
	fi
	__sandglass_jump
}

exit() {
	builtin set -- $? "$@"
	if [[ $BASHPID != "$$" ]]; then
		builtin exit "${@:2}"
	fi
	if [[ ! ${2-$1} =~ ^[-+]?[0-9]+$ ]]; then
		builtin echo "bash: exit: $2: numeric argument required" >&2
		builtin set -- "$1" 2
	fi
	__sandglass_leave $((${2-$1} & 255))
}

__sandglass_error() {
	if [[ $- == *e* && $BASHPID == "$$" ]]; then
		__sandglass_leave "$1"
	fi
}

# Called ahead of a cell that has a $(...): where that does not come to its end, bash 5.2 damages its own memory, and
# dies at the second one. So another bash has a look first. Sets what is to be done with the file.
__sandglass_parses() {
	builtin set -- $? "$@"
	__sandglass_verb=$(BASH_ENV= LC_ALL=C /bin/bash -O extglob -n <"$2" 2>&1)
	if [[ $__sandglass_verb == *'unexpected EOF while looking for matching'* ]]; then
		builtin echo "${__sandglass_verb//\/bin\/bash: line/bash: line}" >&"$3"
		__sandglass_verb=__sandglass_refuse
	else
		__sandglass_verb=.
	fi
	return "$1" # the cell finds it in $?
}

__sandglass_refuse() {
	return 2
}

# The runner has this called after each cell: number of the cell, status. What it echoes goes to the runner.
__sandglass_end() {
	builtin set +e -- "$1" "${__sandglass_code-$2}"
	builtin unset __sandglass_code
	if [[ -n ${__sandglass_trap-} ]]; then
		builtin eval "$__sandglass_trap"
		builtin unset __sandglass_trap
	fi
	builtin echo "$1 $2"
	return "$2" # the next cell finds it in $?
}

set +H +o history -E
shopt -s execfail
unset HISTFILE MAILCHECK
export -n PS1 PS2
trap '__sandglass_error $?' ERR
trap '__sandglass_interrupt' URG
# an interactive shell ignores these, and programs would inherit that
trap : TSTP TTIN TTOU
trap - TSTP TTIN TTOU
