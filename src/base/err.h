/* Errors and assertions.
 *
 * What the environment causes (a bad file, no memory, a closed peer) is an `enum tt_err`: 0 or
 * negative, always checked by the caller, outputs untouched on failure. What only a bug can cause
 * is a `tt_assert`, always on. Overload is neither: it is an answer (a DROP action, TT_ERR_BUSY at
 * admission).
 *
 * A function whose failure a person will read about takes a `struct tt_error *why` and writes there
 * what was wrong, where (file, line, field, tensor), and what would be right. Library code never
 * prints an error that it returns. Implemented in err.c. */
#ifndef TT_BASE_ERR_H
#define TT_BASE_ERR_H

#include <stddef.h>

enum tt_err {
    TT_OK = 0,
    TT_ERR_INVALID = -1,     /* the input makes no sense */
    TT_ERR_NOT_FOUND = -2,   /* no such file, model, tensor */
    TT_ERR_NO_MEMORY = -3,   /* an allocation failed */
    TT_ERR_IO = -4,          /* the operating system failed; the message has errno's text */
    TT_ERR_UNAVAILABLE = -5, /* exists but cannot serve now (loading, draining) */
    TT_ERR_BUSY = -6,        /* a limit is reached; trying later may succeed */
    TT_ERR_UNSUPPORTED = -7, /* makes sense, but not here */
    TT_ERR_TIMEOUT = -8,     /* the deadline passed */
    TT_ERR_CANCELLED = -9,   /* the client has gone */
    TT_ERR_INTERNAL = -10,   /* a library failed, and no input caused it */
};

#define TT_MUST_CHECK __attribute__((warn_unused_result))
/* A function that its callers need seldom. Inlined, it would make them save registers and guard
 * their stack at each call. */
#define TT_APART __attribute__((noinline))
#define TT_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))

/* A sentence for a person. Caller's memory; truncated, never overrun. */
struct tt_error {
    char text[1024];
};

/* The name of `err` for logs ("invalid", "not found" ...). Static storage. */
const char *tt_err_name(enum tt_err err);

/* Writes the formatted sentence to `why` (which may be NULL) and returns `err`, so that
 * `return tt_fail(TT_ERR_INVALID, why, "...")` is one line. */
enum tt_err tt_fail(enum tt_err err, struct tt_error *why, const char *format, ...) TT_PRINTF(3, 4);

/* Puts formatted text and ": " in front of the message in `why`; returns `err`. */
enum tt_err tt_fail_in(enum tt_err err, struct tt_error *why, const char *format, ...)
    TT_PRINTF(3, 4);

/* Prints the failed condition with its place and aborts. */
_Noreturn void tt_assert_failed(const char *condition, const char *file, int line);

/* A bug if false. Always on; one condition each; never a side effect inside. */
#define tt_assert(condition)                                                                       \
    (__builtin_expect(!!(condition), 1) ? (void)0                                                  \
                                        : tt_assert_failed(#condition, __FILE__, __LINE__))

#define TT_CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define TT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
