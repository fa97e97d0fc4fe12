/* Compressed bodies: gzip and deflate (zlib), as Content-Encoding and Accept-Encoding name them.
 *
 * A request's body is unpacked as a whole, once it is there, and never to more than a limit: a
 * small body that unpacks to gigabytes is refused when it has come to the limit, with no more
 * memory taken than that. An answer is packed as a whole, too, quickly rather than well, and only
 * where the client asked for it. */
#ifndef TT_NET_HTTP_CONTENT_CODING_H
#define TT_NET_HTTP_CONTENT_CODING_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum tt_coding { TT_CODING_IDENTITY, TT_CODING_GZIP, TT_CODING_DEFLATE, TT_CODING_UNKNOWN };

/* "gzip", "deflate"; NULL for the others. */
const char *tt_coding_name(enum tt_coding coding);
/* What one Content-Encoding header says; several codings, one on the other, are UNKNOWN. */
enum tt_coding tt_coding_parse(const char *value);
/* What an Accept-Encoding header likes best of those that we have. */
enum tt_coding tt_coding_choose(const char *value);

/* Appends the unpacked bytes. INVALID (not this coding, cut short, or something behind its end),
 * BUSY (more than `limit_bytes`), NO_MEMORY; what was appended then is of no use. */
TT_MUST_CHECK enum tt_err tt_coding_unpack(enum tt_coding coding, const void *bytes, size_t count,
                                           size_t limit_bytes, struct tt_text *out_text,
                                           struct tt_error *why);

struct tt_coding_piece {
    const void *bytes;
    size_t count;
};
/* Appends the packed pieces, one after the other, to the (initialised) text, which has `failed` set
 * where memory was out. */
void tt_coding_pack(enum tt_coding coding, const struct tt_coding_piece *pieces, int piece_count,
                    struct tt_text *out_text);

#endif
