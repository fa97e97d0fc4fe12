/* SHA-256 of files and bytes, as 64 hexadecimal digits. It tells whether a cut or a profile still
 * belongs to the model on disk. */
#ifndef TT_MODEL_TEXT_DIGEST_H
#define TT_MODEL_TEXT_DIGEST_H

#include "base/err.h"

enum { TT_DIGEST_BYTES = 65 };

/* Errors: NOT_FOUND, IO, NO_MEMORY, INTERNAL. */
TT_MUST_CHECK enum tt_err tt_digest_file(const char *path, char out_digest[TT_DIGEST_BYTES],
                                         struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_digest_bytes(const void *bytes, size_t count,
                                          char out_digest[TT_DIGEST_BYTES], struct tt_error *why);

#endif
