#include "model/text/digest.h"

#include "base/regular_file.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 };

static enum tt_err failed(struct tt_error *why) {
    return tt_fail(TT_ERR_INTERNAL, why, "the cryptographic library refuses SHA-256");
}

static enum tt_err finish(EVP_MD_CTX *context, char *out_digest, struct tt_error *why) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (!EVP_DigestFinal_ex(context, digest, &length) || length != (TT_DIGEST_BYTES - 1) / 2)
        return failed(why);
    for (size_t i = 0; i < length; i++)
        snprintf(out_digest + 2 * i, 3, "%02x", digest[i]);
    return TT_OK;
}

enum tt_err tt_digest_bytes(const void *bytes, size_t count, char out_digest[TT_DIGEST_BYTES],
                            struct tt_error *why) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    enum tt_err err = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
                              EVP_DigestUpdate(context, bytes, count)
                          ? finish(context, out_digest, why)
                          : failed(why);
    EVP_MD_CTX_free(context);
    return err;
}

static enum tt_err digest_stream(FILE *file, const char *path, EVP_MD_CTX *context,
                                 struct tt_error *why) {
    char *chunk = malloc(CHUNK_BYTES);
    enum tt_err err = chunk ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", path);
    size_t count;
    while (!err && (count = fread(chunk, 1, CHUNK_BYTES, file)) > 0)
        if (!EVP_DigestUpdate(context, chunk, count))
            err = failed(why);
    if (!err && ferror(file))
        err = tt_fail(TT_ERR_IO, why, "%s: %s", path, strerror(errno));
    free(chunk);
    return err;
}

enum tt_err tt_digest_file(const char *path, char out_digest[TT_DIGEST_BYTES],
                           struct tt_error *why) {
    int descriptor;
    enum tt_err err = tt_regular_file_open(path, &descriptor, why);
    if (err)
        return err;
    FILE *file = fdopen(descriptor, "rb");
    if (!file) {
        close(descriptor);
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory while reading", path);
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    err = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) ? TT_OK : failed(why);
    if (!err)
        err = digest_stream(file, path, context, why);
    if (!err)
        err = finish(context, out_digest, why);
    EVP_MD_CTX_free(context);
    fclose(file);
    return err;
}
