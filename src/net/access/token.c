#include "net/access/token.h"

#include "base/hex.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

enum { BASIC_BYTES = 512 };

_Static_assert(sizeof(struct tt_token_digest) == SHA256_DIGEST_LENGTH, "a digest of SHA-256");

static EVP_MD *sha256; /* NULL: OpenSSL looks it up each time, which takes as long as a digest */

static void fetch_sha256(void) {
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!sha256)
        ERR_clear_error();
}

void tt_token_digest(const char *token, size_t length, struct tt_token_digest *out_digest) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    pthread_once(&once, fetch_sha256);
    if (!sha256 || EVP_Digest(token, length, digest, NULL, sha256, NULL) != 1)
        SHA256((const unsigned char *)token, length, digest);
    memcpy(out_digest->words, digest, sizeof(digest));
}

/* "USER:TOKEN" in base64: what a browser sends that was asked for a password. */
static void read_basic(const char *text, size_t length, struct tt_token *out_token) {
    unsigned char plain[BASIC_BYTES];
    if (length == 0 || length % 4 != 0 || length / 4 * 3 > sizeof(plain))
        return;
    int count = EVP_DecodeBlock(plain, (const unsigned char *)text, (int)length);
    for (size_t i = length; count > 0 && i && text[i - 1] == '='; i--)
        count--;
    const unsigned char *colon = count > 0 ? memchr(plain, ':', (size_t)count) : NULL;
    size_t skipped = colon ? (size_t)(colon - plain) + 1 : 0;
    if (colon && skipped < (size_t)count) {
        out_token->is_given = true;
        tt_token_digest((const char *)colon + 1, (size_t)count - skipped, &out_token->digest);
    }
    OPENSSL_cleanse(plain, sizeof(plain));
}

void tt_token_read(const char *value, size_t length, struct tt_token *out_token) {
    static const char bearer[] = "Bearer ", basic[] = "Basic ";
    enum { BEARER = sizeof(bearer) - 1, BASIC = sizeof(basic) - 1 };
    *out_token = (struct tt_token){0};
    while (length && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        length--;
    bool is_bearer = length > BEARER && strncasecmp(value, bearer, BEARER) == 0;
    size_t at = is_bearer ? BEARER : BASIC;
    if (!is_bearer && (length <= BASIC || strncasecmp(value, basic, BASIC) != 0))
        return;
    while (at < length && value[at] == ' ')
        at++;
    if (!is_bearer) {
        read_basic(value + at, length - at, out_token);
        return;
    }
    out_token->is_given = true;
    tt_token_digest(value + at, length - at, &out_token->digest);
}

uint64_t tt_token_digest_equal(const struct tt_token_digest *one,
                               const struct tt_token_digest *other) {
    uint64_t difference = 0;
    for (int i = 0; i < TT_TOKEN_DIGEST_WORDS; i++)
        difference |= one->words[i] ^ other->words[i];
    __asm__("" : "+r"(difference)); /* else a compiler may leave the loop at the first difference */
    uint64_t top = (difference | (0 - difference)) >> 63; /* 1: they differ */
    return top - 1;
}

bool tt_token_digest_parse(const char *hex, size_t length, struct tt_token_digest *out_digest) {
    struct tt_token_digest digest = {{0}};
    if (length != TT_TOKEN_DIGEST_HEX ||
        !tt_hex_read(hex, sizeof(digest.words), false, (uint8_t *)digest.words))
        return false;
    *out_digest = digest;
    return true;
}

void tt_token_digest_write(const struct tt_token_digest *digest,
                           char out_hex[TT_TOKEN_DIGEST_HEX + 1]) {
    tt_hex_write(digest->words, sizeof(digest->words), out_hex);
    out_hex[TT_TOKEN_DIGEST_HEX] = '\0';
}
