#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tt_err_name(enum tt_err err) {
    switch (err) {
    case TT_OK: return "ok";
    case TT_ERR_INVALID: return "invalid";
    case TT_ERR_NOT_FOUND: return "not found";
    case TT_ERR_NO_MEMORY: return "out of memory";
    case TT_ERR_IO: return "I/O error";
    case TT_ERR_UNAVAILABLE: return "unavailable";
    case TT_ERR_BUSY: return "busy";
    case TT_ERR_UNSUPPORTED: return "unsupported";
    case TT_ERR_TIMEOUT: return "deadline passed";
    case TT_ERR_CANCELLED: return "cancelled";
    case TT_ERR_INTERNAL: return "internal error";
    }
    return "unknown error";
}

enum tt_err tt_fail(enum tt_err err, struct tt_error *why, const char *format, ...) {
    if (why) {
        va_list args;
        va_start(args, format);
        vsnprintf(why->text, sizeof(why->text), format, args);
        va_end(args);
    }
    return err;
}

enum tt_err tt_fail_in(enum tt_err err, struct tt_error *why, const char *format, ...) {
    if (why) {
        struct tt_error inner = *why;
        va_list args;
        va_start(args, format);
        int length = vsnprintf(why->text, sizeof(why->text), format, args);
        va_end(args);
        size_t used = length < 0 ? 0 : (size_t)length;
        const char *parts[] = {": ", inner.text};
        for (size_t i = 0; i < TT_COUNT(parts) && used < sizeof(why->text) - 1; i++) {
            size_t room = sizeof(why->text) - 1 - used;
            size_t count = strnlen(parts[i], room);
            memcpy(why->text + used, parts[i], count);
            used += count;
            why->text[used] = '\0';
        }
    }
    return err;
}

_Noreturn void tt_assert_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
