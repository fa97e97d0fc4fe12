/* Lets an allocation of this thread fail. The build links these tests with --wrap=calloc. */
#ifndef TUTTI_TESTS_UNIT_DEVICE_FAILING_CALLOC_H
#define TUTTI_TESTS_UNIT_DEVICE_FAILING_CALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Counts down at each calloc; the one that reaches 0 fails. 0: none. */
static _Thread_local int32_t failing_allocation;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    if (failing_allocation > 0 && --failing_allocation == 0)
        return NULL;
    return __real_calloc(count, bytes);
}

#endif
