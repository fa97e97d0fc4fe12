/* The HTTP/1.1 parser must survive any bytes, say the same however they are cut, and never give out
 * more than its limits. Build with -fsanitize=fuzzer,address,undefined. */
#include "net/http1.h"

#include <stdlib.h>
#include <string.h>

static const struct tt_http1_limits limits = {
    .head_bytes = 512, .header_count = 8, .body_bytes = 1024};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Requests taken, and the bytes of their bodies; adds up to one number. */
static uint64_t play(const uint8_t *data, size_t size, size_t step) {
    struct tt_http1 parser;
    tt_http1_init(&parser, &limits);
    uint64_t sum = 0;
    bool again = false;
    for (size_t at = 0; at < size || again;) {
        size_t piece = size - at < step ? size - at : step, used;
        char *copy = malloc(piece ? piece : 1); /* so that a read behind the end is seen */
        memcpy(copy, data + at, piece);
        enum tt_http1_event event = tt_http1_feed(&parser, copy, piece, &used);
        free(copy);
        tt_assert(used <= piece);
        at += used;
        again = event == TT_HTTP1_HEAD;
        if (event == TT_HTTP1_BAD) {
            const char *sentence;
            tt_assert(tt_http1_problem(&parser, &sentence) >= 400);
            sum += 1;
            break;
        }
        if (event == TT_HTTP1_MESSAGE) {
            tt_assert(parser.request->body.length <= limits.body_bytes);
            sum = sum * 31 + parser.request->body.length + 7;
            tt_http1_reset(&parser);
        }
    }
    tt_http1_fini(&parser);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t by_bytes = play(data, size, 1);
    tt_assert(by_bytes == play(data, size, 7));
    tt_assert(by_bytes == play(data, size, SIZE_MAX));
    return 0;
}
