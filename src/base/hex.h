/* Bytes as hexadecimal digits. Implemented in hex.c. */
#ifndef TT_BASE_HEX_H
#define TT_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `count` bytes as 2 * `count` lower-case digits, without a NUL. */
void tt_hex_write(const void *bytes, size_t count, char *out);
/* 2 * `count` digits as bytes. With `is_lower`, upper-case digits are refused. False: a character
 * is no digit; `out_bytes` is then partly written. */
bool tt_hex_read(const char *digits, size_t count, bool is_lower, uint8_t *out_bytes);

#endif
