/* print() that writes a call's text whole. */
#ifndef KERNELS_PYTHON_PRINT_H
#define KERNELS_PYTHON_PRINT_H

#define Py_LIMITED_API 0x030b0000
#include <Python.h>

/* print_to(out, err): from now on builtins.print is ours, and for these two streams writes at once
 * what one call prints. */
PyObject *print_to(PyObject *module, PyObject *arguments);

#endif
