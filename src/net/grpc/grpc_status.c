#include "net/grpc/grpc_status.h"

#include "base/instant.h"

#include <string.h>

enum tt_grpc_status tt_grpc_status_of(enum tt_err err) {
    switch (err) {
    case TT_OK: return TT_GRPC_OK;
    case TT_ERR_INVALID: return TT_GRPC_INVALID_ARGUMENT;
    case TT_ERR_NOT_FOUND: return TT_GRPC_NOT_FOUND;
    case TT_ERR_UNSUPPORTED: return TT_GRPC_UNIMPLEMENTED;
    case TT_ERR_TIMEOUT: return TT_GRPC_DEADLINE_EXCEEDED;
    case TT_ERR_BUSY:
    case TT_ERR_UNAVAILABLE: return TT_GRPC_UNAVAILABLE;
    case TT_ERR_NO_MEMORY: return TT_GRPC_RESOURCE_EXHAUSTED;
    case TT_ERR_CANCELLED: return TT_GRPC_CANCELLED;
    case TT_ERR_IO:
    case TT_ERR_INTERNAL:
    default: return TT_GRPC_INTERNAL;
    }
}

/* How many of the first bytes stand in a header as they are. */
static size_t plain_bytes(const char *bytes, size_t length) {
    return tt_text_plain_bytes(bytes, length, '%', '%');
}

void tt_grpc_status_put(struct tt_text *out, const char *sentence) {
    static const char digits[] = "0123456789ABCDEF";
    size_t length = strlen(sentence), from = 0; /* from there to `i` it stands as it is */
    (void)tt_text_reserve(out, length);         /* what fails here fails below */
    for (size_t i = plain_bytes(sentence, length); i < length;
         i++, i += plain_bytes(sentence + i, length - i)) {
        unsigned char c = (unsigned char)sentence[i];
        const char coded[] = {'%', digits[c >> 4], digits[c & 15]};
        tt_text_append(out, sentence + from, i - from);
        tt_text_append(out, coded, sizeof(coded));
        from = i + 1;
    }
    tt_text_append(out, sentence + from, length - from);
}

int64_t tt_grpc_timeout_parse(const char *value, size_t value_bytes) {
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'H', 3600 * TT_S}, {'M', 60 * TT_S}, {'S', TT_S},
                 {'m', TT_MS},       {'u', TT_US},     {'n', 1}};
    if (value_bytes < 2 || value_bytes > 9)
        return -1;
    int64_t number = 0, timeout_ns;
    for (size_t i = 0; i + 1 < value_bytes; i++) {
        if (value[i] < '0' || value[i] > '9')
            return -1;
        number = number * 10 + (value[i] - '0');
    }
    for (size_t i = 0; i < TT_COUNT(units); i++)
        if (units[i].unit == value[value_bytes - 1])
            return __builtin_mul_overflow(number, units[i].ns, &timeout_ns) ? INT64_MAX
                                                                            : timeout_ns;
    return -1;
}
