#include "lab/scenario/allocate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* _Exit: a process of a sweep must not flush the streams that it shares with its parent. */
static void *never_null(void *memory) {
    if (!memory) {
        fputs("tutti: out of memory\n", stderr);
        _Exit(EXIT_FAILURE);
    }
    return memory;
}

void *tt_allocate(size_t count, size_t size) { return never_null(calloc(count ? count : 1, size)); }

void *tt_reallocate(void *take_array, size_t count, size_t size) {
    return never_null(reallocarray(take_array, count, size));
}

char *tt_copy_text(const char *text) { return never_null(strdup(text)); }

char *tt_format_text(const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return never_null(length < 0 ? NULL : text);
}
