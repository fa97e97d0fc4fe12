/* A bearer token, by its SHA-256 digest: the token itself is not kept, logged or compared. Pure
 * functions. Implemented in token.c. */
#ifndef TT_NET_ACCESS_TOKEN_H
#define TT_NET_ACCESS_TOKEN_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_TOKEN_DIGEST_WORDS = 4, TT_TOKEN_DIGEST_HEX = 64 };

struct tt_token_digest {
    uint64_t words[TT_TOKEN_DIGEST_WORDS];
};

/* What a request brings; zero-initialised: nothing. */
struct tt_token {
    bool is_given;
    struct tt_token_digest digest;
};

void tt_token_digest(const char *token, size_t length, struct tt_token_digest *out_digest);
/* The value of the header Authorization, "Bearer TOKEN", or "Basic" with the token as password. Any
 * other value is as none. */
void tt_token_read(const char *value, size_t length, struct tt_token *out_token);
/* All ones where both are equal, else 0. Its time does not depend on the values. */
uint64_t tt_token_digest_equal(const struct tt_token_digest *one,
                               const struct tt_token_digest *other);
/* 64 digits, either case. False: it has another form. */
bool tt_token_digest_parse(const char *hex, size_t length, struct tt_token_digest *out_digest);
void tt_token_digest_write(const struct tt_token_digest *digest,
                           char out_hex[TT_TOKEN_DIGEST_HEX + 1]);

#endif
