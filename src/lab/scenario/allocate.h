/* Memory of programs that compute one result and end: experiments, sweeps, replays, benches and
 * load generators. Without memory they cannot go on, so running out of it ends the process with a
 * message and exit code 1, and callers check nothing. free() takes what these functions return.
 *
 * Nothing that serves requests uses it: there an allocation that fails is an enum tt_err. */
#ifndef TT_LAB_SCENARIO_ALLOCATE_H
#define TT_LAB_SCENARIO_ALLOCATE_H

#include "base/err.h"

/* `count` elements of `size` bytes, all zero. Never NULL. */
void *tt_allocate(size_t count, size_t size);
/* The array with room for `count` elements; those it had are kept. Takes NULL, too. */
void *tt_reallocate(void *take_array, size_t count, size_t size);
/* A copy of the text. */
char *tt_copy_text(const char *text);
/* The formatted text. */
char *tt_format_text(const char *format, ...) TT_PRINTF(1, 2);

#endif
