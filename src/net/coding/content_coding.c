#include "net/coding/content_coding.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum {
    ZLIB_WINDOW = 15,
    GZIP_WINDOW = 15 + 16, /* zlib: 16 selects gzip */
    LEVEL = 1,             /* fastest: CPU time is scarcer than network */
    PIECE_BYTES = 16384,
};

const char *tt_coding_name(enum tt_coding coding) {
    return coding == TT_CODING_GZIP ? "gzip" : coding == TT_CODING_DEFLATE ? "deflate" : NULL;
}

static enum tt_coding coding_of(const char *name, size_t length) {
    static const struct {
        const char *name;
        enum tt_coding coding;
    } known[] = {{"identity", TT_CODING_IDENTITY},
                 {"gzip", TT_CODING_GZIP},
                 {"x-gzip", TT_CODING_GZIP},
                 {"deflate", TT_CODING_DEFLATE}};
    for (size_t i = 0; i < TT_COUNT(known); i++)
        if (strlen(known[i].name) == length && strncasecmp(name, known[i].name, length) == 0)
            return known[i].coding;
    return TT_CODING_UNKNOWN;
}

enum tt_coding tt_coding_parse(const char *value) {
    return *value ? coding_of(value, strlen(value)) : TT_CODING_IDENTITY;
}

/* Thousandths of the weight after a coding's name; 0 if it is malformed. */
static int weight_of(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end)
        return 1000;
    if (*at != ';')
        return 0;
    for (at++; at < end && (*at == ' ' || *at == '\t'); at++)
        continue;
    if (end - at < 3 || (*at != 'q' && *at != 'Q') || at[1] != '=' ||
        (at[2] != '0' && at[2] != '1'))
        return 0;
    int weight = (at[2] - '0') * 1000;
    at += 3;
    if (at < end && *at == '.')
        for (int unit = 100; ++at < end && *at >= '0' && *at <= '9'; unit /= 10)
            weight += (*at - '0') * unit;
    return weight > 1000 ? 1000 : weight;
}

enum tt_coding tt_coding_choose(const char *value) {
    int weights[] = {[TT_CODING_IDENTITY] = -1, [TT_CODING_GZIP] = -1, [TT_CODING_DEFLATE] = -1};
    int others = -1;
    for (const char *at = value; *at;) {
        at += strspn(at, " \t,");
        const char *end = at + strcspn(at, ",");
        size_t length = strcspn(at, " \t,;");
        enum tt_coding coding = coding_of(at, length);
        int weight = weight_of(at + length, end);
        if (length == 1 && *at == '*')
            others = weight;
        else if (coding != TT_CODING_UNKNOWN)
            weights[coding] = weight;
        at = end;
    }
    enum tt_coding best = TT_CODING_IDENTITY;
    int best_weight = weights[TT_CODING_IDENTITY] > 0 ? weights[TT_CODING_IDENTITY] : 0;
    for (int coding = TT_CODING_GZIP; coding <= TT_CODING_DEFLATE; coding++) {
        int weight = weights[coding] >= 0 ? weights[coding] : others;
        if (weight > best_weight ||
            (weight == best_weight && weight > 0 && best == TT_CODING_IDENTITY)) {
            best = (enum tt_coding)coding;
            best_weight = weight;
        }
    }
    return best;
}

/* Inflates until the input is used up; `stream` is initialised. */
static enum tt_err inflate_all(z_stream *stream, size_t count, size_t limit_bytes,
                               bool several_members, struct tt_text *text, struct tt_error *why) {
    size_t begin = text->length, left = count;
    for (;;) {
        size_t room = limit_bytes + 1 - (text->length - begin);
        if (room > PIECE_BYTES && room > text->length)
            room = text->length > PIECE_BYTES ? text->length : PIECE_BYTES; /* doubles */
        char *to = tt_text_reserve(text, room);
        if (!to)
            return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the unpacked body");
        stream->next_out = (Bytef *)to;
        stream->avail_out = room > UINT_MAX ? UINT_MAX : (uInt)room;
        size_t offered = stream->avail_out;
        if (stream->avail_in == 0 && left > 0) {
            stream->avail_in = left > UINT_MAX ? UINT_MAX : (uInt)left;
            left -= stream->avail_in;
        }
        int result = inflate(stream, Z_NO_FLUSH);
        text->length += offered - stream->avail_out;
        if (text->length - begin > limit_bytes)
            return tt_fail(TT_ERR_BUSY, why, "the body unpacks to more than the limit of %zu bytes",
                           limit_bytes);
        bool used_up = stream->avail_in == 0 && left == 0;
        if (result == Z_STREAM_END && used_up)
            return TT_OK;
        if (result == Z_STREAM_END && several_members) {
            if (inflateReset(stream) != Z_OK)
                return tt_fail(TT_ERR_INTERNAL, why, "zlib: inflateReset failed");
            continue;
        }
        if (result == Z_MEM_ERROR)
            return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the unpacked body");
        if (result == Z_STREAM_END)
            return tt_fail(TT_ERR_INVALID, why, "there are bytes after the packed body's end");
        if (result != Z_OK || (used_up && stream->avail_out > 0))
            return tt_fail(TT_ERR_INVALID, why, "the packed body is damaged or cut short%s%s",
                           stream->msg ? ": " : "", stream->msg ? stream->msg : "");
    }
}

enum tt_err tt_coding_unpack(enum tt_coding coding, const void *bytes, size_t count,
                             size_t limit_bytes, struct tt_text *out_text, struct tt_error *why) {
    tt_assert(coding == TT_CODING_GZIP || coding == TT_CODING_DEFLATE);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes};
    if (inflateInit2(&stream, coding == TT_CODING_GZIP ? GZIP_WINDOW : ZLIB_WINDOW) != Z_OK)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory to unpack the body");
    enum tt_err err =
        inflate_all(&stream, count, limit_bytes, coding == TT_CODING_GZIP, out_text, why);
    inflateEnd(&stream);
    return err;
}

/* Compresses a piece of input; with `flush` Z_FINISH, until the output is complete. */
static void deflate_piece(z_stream *stream, const void *bytes, size_t count, int flush,
                          struct tt_text *text) {
    stream->next_in = (Bytef *)(uintptr_t)bytes;
    size_t left = count;
    int result = Z_OK;
    do {
        if (stream->avail_in == 0) {
            stream->avail_in = left > UINT_MAX ? UINT_MAX : (uInt)left;
            left -= stream->avail_in;
        }
        char *to = tt_text_reserve(text, PIECE_BYTES);
        if (!to)
            return; /* `text->failed` is set */
        stream->next_out = (Bytef *)to;
        stream->avail_out = PIECE_BYTES;
        result = deflate(stream, left ? Z_NO_FLUSH : flush);
        tt_assert(result != Z_STREAM_ERROR);
        text->length += PIECE_BYTES - stream->avail_out;
    } while (left || stream->avail_in || (flush == Z_FINISH && result != Z_STREAM_END));
}

void tt_coding_pack(enum tt_coding coding, const struct tt_coding_piece *pieces, int piece_count,
                    struct tt_text *out_text) {
    tt_assert(coding == TT_CODING_GZIP || coding == TT_CODING_DEFLATE);
    z_stream stream = {0};
    int window = coding == TT_CODING_GZIP ? GZIP_WINDOW : ZLIB_WINDOW;
    if (deflateInit2(&stream, LEVEL, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        out_text->failed = true;
        return;
    }
    for (int i = 0; i < piece_count && !out_text->failed; i++)
        deflate_piece(&stream, pieces[i].bytes, pieces[i].count, Z_NO_FLUSH, out_text);
    if (!out_text->failed)
        deflate_piece(&stream, "", 0, Z_FINISH, out_text);
    deflateEnd(&stream);
}
