/* The static program's entry; the library has only probe_main. */
#include "probe.h"

int main(int argc, char **argv)
{
	return probe_main(argc, argv);
}
