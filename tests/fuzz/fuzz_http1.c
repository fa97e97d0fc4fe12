/* The HTTP/1.1 parser must survive any bytes, say the same however they are cut, and never give out
 * more than its limits; packed bodies are unpacked and packed again. Build with
 * -fsanitize=fuzzer,address,undefined. */
/* covers: net/http/http1.c net/coding/content_coding.c */
#include "net/http/http1.h"

#include <stdlib.h>
#include <string.h>

static const struct tt_http_message_limits limits = {
    .head_bytes = 512, .header_count = 8, .body_bytes = 1024};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { UNPACKED_BYTES = 4096 };

/* What the body unpacks to; adds up to one number. */
static uint64_t unpack(const struct tt_http_message *request) {
    if (request->coding != TT_CODING_GZIP && request->coding != TT_CODING_DEFLATE)
        return request->coding;
    struct tt_text unpacked;
    struct tt_error why = {{0}};
    tt_text_init(&unpacked);
    enum tt_err err =
        tt_coding_unpack(request->coding, request->body.bytes ? request->body.bytes : "",
                         request->body.length, UNPACKED_BYTES, &unpacked, &why);
    tt_assert((err == TT_OK) == (why.text[0] == '\0'));
    tt_assert(unpacked.length <= UNPACKED_BYTES + 1);
    tt_assert(err || unpacked.length <= UNPACKED_BYTES);
    struct tt_text packed, again;
    tt_text_init(&packed);
    tt_text_init(&again);
    if (!err) { /* what came out goes back in */
        struct tt_coding_piece piece = {unpacked.bytes, unpacked.length};
        tt_coding_pack(request->coding, &piece, 1, &packed);
        err = tt_coding_unpack(request->coding, packed.bytes, packed.length, UNPACKED_BYTES, &again,
                               &why);
        tt_assert(err == TT_OK);
        tt_assert(again.length == unpacked.length);
    }
    uint64_t sum = unpacked.length + (uint64_t)-err;
    tt_text_fini(&unpacked);
    tt_text_fini(&packed);
    tt_text_fini(&again);
    return sum;
}

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
            tt_assert(parser.request->message.body.length <= limits.body_bytes);
            sum = sum * 31 + parser.request->message.body.length +
                  unpack(&parser.request->message) + 7;
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
