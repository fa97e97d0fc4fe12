/* SHA-256, as 64 hexadecimal digits, of files and bytes: how one tells whether a cut or a profile
 * is still of the model that stands there. */
#ifndef TT_MODEL_TEXT_DIGEST_H
#define TT_MODEL_TEXT_DIGEST_H

#include "base/err.h"

enum { TT_DIGEST_BYTES = 65 };

/* Errors: NOT_FOUND, IO, INTERNAL. */
TT_MUST_CHECK enum tt_err tt_digest_file(const char *path, char out_digest[TT_DIGEST_BYTES],
                                         struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_digest_bytes(const void *bytes, size_t count,
                                          char out_digest[TT_DIGEST_BYTES], struct tt_error *why);

#endif
