/* UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. Pure
 * functions. Implemented in utf8.c. */
#ifndef TT_BASE_UTF8_H
#define TT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `at`, of which `left` bytes may be read (1 or more); 0: it is none. */
size_t tt_utf8_step(const char *at, size_t left);
bool tt_is_utf8(const char *bytes, size_t length);

#endif
