/* The file of tokens: the identities that may use the server, their roles and limits.
 *
 * A line is `NAME ROLE SHA256 [in_flight=N] [rate=N] [bytes=N]`, fields separated by spaces or
 * tabs; empty lines and what follows `#` are ignored. SHA256 is the hexadecimal digest of the
 * token. A name may stand on several lines, with the same role and limits, so that a token can be
 * replaced.
 *
 * Life of a table: read from the file, published, replaced when the file changes; identities whose
 * line did not change keep their counts. A table is never changed. Implemented in token_file.c. */
#ifndef TT_NET_ACCESS_TOKEN_FILE_H
#define TT_NET_ACCESS_TOKEN_FILE_H

#include "net/access/access_role.h"
#include "net/access/byte_holder.h"
#include "net/access/token.h"

enum {
    TT_IDENTITY_NAME_BYTES = 64,
    TT_TOKEN_FILE_LINES = 1024, /* with tokens */
    TT_TOKEN_FILE_BYTES = 1 << 20
};

struct tt_identity {
    struct tt_byte_holder holder;      /* the first member */
    char name[TT_IDENTITY_NAME_BYTES]; /* letters, digits and . _ @ - */
    enum tt_role role;
    int64_t in_flight_limit, rate_limit; /* inferences at a time, requests per second; 0: none */
};

struct tt_token_table {
    struct tt_shared shared;
    int32_t count;
    struct {
        struct tt_token_digest digest;
        struct tt_identity *identity; /* a reference */
    } entries[];
};

/* `path` is for messages only; `former` NULL: there is none. The caller gets a reference. INVALID
 * (with path, line, and what would be right), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_token_table_parse(const char *path, const char *text, size_t length,
                                               const struct tt_token_table *former,
                                               struct tt_token_table **out_table,
                                               struct tt_error *why);
/* Also NOT_FOUND, IO. */
TT_MUST_CHECK enum tt_err tt_token_table_read(const char *path, const struct tt_token_table *former,
                                              struct tt_token_table **out_table,
                                              struct tt_error *why);
/* NULL-safe. */
void tt_token_table_unref(struct tt_token_table *self);
void tt_identity_unref(struct tt_identity *self);
/* The identity of the token; NULL: none. Looks at every entry, whichever is the right one.
 * Borrowed from the table. */
struct tt_identity *tt_token_table_find(const struct tt_token_table *self,
                                        const struct tt_token_digest *digest);
/* Asserts the invariants of the table. */
void tt_token_table_check(const struct tt_token_table *self);

#endif
