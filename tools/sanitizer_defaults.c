/*
 * Linked into every program of the sanitizers' build. The daemon's processes get no environment
 * from whoever starts them, so what they need has to be in them: no search for leaks at the end,
 * which needs a process that may be traced and sees its own pid; and a small quarantine, since
 * tests look at memory, too. The unit tests ask for leaks by ASAN_OPTIONS, which comes after this.
 */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0:quarantine_size_mb=16:exitcode=99";
}

const char *__ubsan_default_options(void);

const char *__ubsan_default_options(void)
{
	return "print_stacktrace=1:halt_on_error=1:exitcode=99";
}
