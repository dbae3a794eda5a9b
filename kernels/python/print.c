/*
 * See print.h. The interpreter's print() writes each value and each line end by itself. Our streams
 * pass on what is written at once, so `print(x, flush=True)` reached its reader as two events, and
 * prints of two threads mixed within their lines. Here the text of a call is put together first.
 *
 * Nothing else is different: other streams and odd arguments go to the interpreter's own; and ahead
 * of a value whose text is made by Python code what stands before it is written, since that code may
 * print as well, wait, or fail.
 */
#include "print.h"

#include "base/macros.h"

#include <stdbool.h>
#include <string.h>

static PyObject *original, *streams[2]; /* references, for ever */

struct call {
	PyObject *file;      /* borrowed: one of ours */
	PyObject *sep, *end; /* borrowed; NULL: as usual */
	PyObject *pieces;    /* owned: a list of str */
	bool is_flushed;
};

/* ---- arguments ---- */

static bool take_text(PyObject *value, PyObject **ret_text)
{
	*ret_text = value == Py_None ? NULL : value;
	return value == Py_None || PyUnicode_CheckExact(value);
}

static bool take_named(struct call *call, PyObject *name, PyObject *value)
{
	if (PyUnicode_CompareWithASCIIString(name, "sep") == 0)
		return take_text(value, &call->sep);
	if (PyUnicode_CompareWithASCIIString(name, "end") == 0)
		return take_text(value, &call->end);
	if (PyUnicode_CompareWithASCIIString(name, "flush") == 0) {
		call->is_flushed = value == Py_True;
		return PyBool_Check(value);
	}
	if (PyUnicode_CompareWithASCIIString(name, "file") == 0) {
		if (value != Py_None)
			call->file = value;
		return true;
	}
	return false;
}

/* False: nothing that is treated here. */
static bool take_arguments(struct call *call, PyObject *named)
{
	PyObject *name, *value;
	Py_ssize_t at = 0;
	call->file = PySys_GetObject("stdout");
	while (named && PyDict_Next(named, &at, &name, &value))
		if (!take_named(call, name, value))
			return false;
	return call->file && (call->file == streams[0] || call->file == streams[1]);
}

/* ---- text ---- */

static bool add(struct call *call, PyObject *text)
{
	bool is_added = text && PyList_Append(call->pieces, text) == 0;
	Py_XDECREF(text);
	return is_added;
}

static bool call_method(PyObject *object, const char *name, PyObject *argument)
{
	PyObject *method = PyObject_GetAttrString(object, name);
	PyObject *result = method ? PyObject_CallFunctionObjArgs(method, argument, NULL) : NULL;
	Py_XDECREF(method);
	Py_XDECREF(result);
	return result;
}

/* Writes what there is so far. */
static bool write_pieces(struct call *call)
{
	if (PyList_Size(call->pieces) == 0)
		return true;
	PyObject *nothing = PyUnicode_FromString("");
	PyObject *text = nothing ? PyUnicode_Join(nothing, call->pieces) : NULL;
	bool is_written = text && call_method(call->file, "write", text) &&
			  PyList_SetSlice(call->pieces, 0, PyList_Size(call->pieces), NULL) == 0;
	Py_XDECREF(nothing);
	Py_XDECREF(text);
	return is_written;
}

/* Its text is made without Python code. */
static bool is_plain(PyObject *value)
{
	return PyUnicode_CheckExact(value) || PyLong_CheckExact(value) ||
	       PyFloat_CheckExact(value) || PyBool_Check(value) || value == Py_None;
}

static bool add_separator(struct call *call, PyObject *text, const char *usual)
{
	return add(call, text ? Py_NewRef(text) : PyUnicode_FromString(usual));
}

static bool print_values(struct call *call, PyObject *values)
{
	for (Py_ssize_t i = 0, count = PyTuple_Size(values); i < count; i++) {
		PyObject *value = PyTuple_GetItem(values, i);
		if ((i > 0 && !add_separator(call, call->sep, " ")) ||
			(!is_plain(value) && !write_pieces(call)) ||
			!add(call, PyObject_Str(value)))
			return false;
	}
	return add_separator(call, call->end, "\n") && write_pieces(call) &&
	       (!call->is_flushed || call_method(call->file, "flush", NULL));
}

static PyObject *print(PyObject *module, PyObject *values, PyObject *named)
{
	struct call call = { 0 };
	if (!take_arguments(&call, named))
		return PyObject_Call(original, values, named);
	call.pieces = PyList_New(0);
	Py_INCREF(call.file);
	bool is_printed = call.pieces && print_values(&call, values);
	Py_DECREF(call.file);
	Py_XDECREF(call.pieces);
	return is_printed ? Py_NewRef(Py_None) : NULL;
}

/* ---- in place of the interpreter's ---- */

static PyMethodDef definition = { "print", (PyCFunction)(void (*)(void))print,
	METH_VARARGS | METH_KEYWORDS, NULL };

/* It looks as the other does, with its text and signature. */
static bool replace_print(void)
{
	PyObject *builtins = PyImport_ImportModule("builtins");
	PyObject *name = PyUnicode_FromString("builtins"), *ours = NULL, *doc = NULL;
	original = builtins ? PyObject_GetAttrString(builtins, "print") : NULL;
	doc = original ? PyObject_GetAttrString(original, "__doc__") : NULL;
	const char *text = doc && PyUnicode_Check(doc) ? PyUnicode_AsUTF8AndSize(doc, NULL) : NULL;
	static char kept[4096] = "print(*args, sep=' ', end='\\n', file=None, flush=False)\n--\n\n";
	if (text)
		strncat(kept, text, sizeof(kept) - strlen(kept) - 1);
	definition.ml_doc = kept;
	if (original && name)
		ours = PyCFunction_NewEx(&definition, builtins, name);
	bool is_done = ours && PyObject_SetAttrString(builtins, "print", ours) == 0;
	Py_XDECREF(doc);
	Py_XDECREF(ours);
	Py_XDECREF(name);
	Py_XDECREF(builtins);
	return is_done;
}

PyObject *print_to(PyObject *module, PyObject *arguments)
{
	PyObject *out, *err;
	if (!PyArg_ParseTuple(arguments, "OO", &out, &err) || (!original && !replace_print()))
		return NULL;
	PyObject *old[] = { streams[0], streams[1] };
	streams[0] = Py_NewRef(out);
	streams[1] = Py_NewRef(err);
	Py_XDECREF(old[0]);
	Py_XDECREF(old[1]);
	return Py_NewRef(Py_None);
}
