/* Base64 with the letters + and /, and padding. Implemented in base64.c. */
#ifndef TT_BASE_BASE64_H
#define TT_BASE_BASE64_H

#include "base/text.h"

/* Appends the bytes as base64. Without memory, the text fails. */
void tt_base64_put(struct tt_text *out, const void *bytes, size_t count);

#endif
