/* Small helpers of the language: sizes, containers, and variables that clean up after
 * themselves. */
#ifndef BASE_MACROS_H
#define BASE_MACROS_H

#include <stddef.h>
#include <stdlib.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* CLEANUP(thing_free) struct thing *t: thing_free(t) runs when t goes out of scope. Declare the
 * function with CLEANUP_FUNCTION(struct thing *, thing_free) once, after its prototype. */
#define CLEANUP_FUNCTION(type, function) \
	static inline void function##_cleanup(type *pointer) \
	{ \
		if (*pointer) \
			(void)function(*pointer); \
	} \
	struct cleanup_needs_a_semicolon
#define CLEANUP(function) __attribute__((cleanup(function##_cleanup)))

/* Hands on what a cleanup variable holds, and empties the variable. */
#define TAKE(pointer) \
	({ \
		typeof(pointer) take_from = (pointer); \
		typeof(*take_from) taken = *take_from; \
		*take_from = NULL; \
		taken; \
	})

static inline void cleanup_free_function(void *pointer)
{
	free(*(void **)pointer);
}
#define cleanup_free __attribute__((cleanup(cleanup_free_function)))

#endif
