#include "base/hex.h"

void tt_hex_write(const void *bytes, size_t count, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = ((const uint8_t *)bytes)[i];
        out[2 * i] = digits[byte >> 4];
        out[2 * i + 1] = digits[byte & 15];
    }
}

static int value_of(char c, bool is_lower) {
    return c >= '0' && c <= '9'                ? c - '0'
           : c >= 'a' && c <= 'f'              ? c - 'a' + 10
           : !is_lower && c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
}

bool tt_hex_read(const char *digits, size_t count, bool is_lower, uint8_t *out_bytes) {
    for (size_t i = 0; i < count; i++) {
        int high = value_of(digits[2 * i], is_lower), low = value_of(digits[2 * i + 1], is_lower);
        if (high < 0 || low < 0)
            return false;
        out_bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
