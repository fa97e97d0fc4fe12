/* Compressed bodies: gzip and deflate (zlib), as Content-Encoding and Accept-Encoding name them.
 *
 * A request's body is unpacked as a whole when it is complete, and never beyond a limit: a small
 * body that unpacks to gigabytes is rejected at the limit, and takes no more memory than that. An
 * answer is packed as a whole, too, for speed rather than size. Implemented in content_coding.c. */
#ifndef TT_NET_CODING_CONTENT_CODING_H
#define TT_NET_CODING_CONTENT_CODING_H

#include "base/err.h"
#include "base/text.h"

#include <stddef.h>

enum tt_coding { TT_CODING_IDENTITY, TT_CODING_GZIP, TT_CODING_DEFLATE, TT_CODING_UNKNOWN };

/* "gzip", "deflate"; NULL for the others. */
const char *tt_coding_name(enum tt_coding coding);
/* The coding of one Content-Encoding header; several codings are UNKNOWN. */
enum tt_coding tt_coding_parse(const char *value);
/* The coding that an Accept-Encoding header prefers of those supported. */
enum tt_coding tt_coding_choose(const char *value);

/* Appends the unpacked bytes. INVALID (not this coding, truncated, or bytes after its end), BUSY
 * (more than `limit_bytes`), NO_MEMORY; `out_text` is then incomplete. */
TT_MUST_CHECK enum tt_err tt_coding_unpack(enum tt_coding coding, const void *bytes, size_t count,
                                           size_t limit_bytes, struct tt_text *out_text,
                                           struct tt_error *why);

struct tt_coding_piece {
    const void *bytes;
    size_t count;
};
/* Appends the packed pieces, one after the other, to an initialised text. Without memory,
 * `out_text->failed` is set. */
void tt_coding_pack(enum tt_coding coding, const struct tt_coding_piece *pieces, int piece_count,
                    struct tt_text *out_text);

#endif
