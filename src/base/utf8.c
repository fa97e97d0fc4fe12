#include "base/utf8.h"

#include <stdint.h>

size_t tt_utf8_step(const char *text, size_t left) {
    const uint8_t *at = (const uint8_t *)text;
    uint8_t c = at[0];
    if (c < 0x80)
        return 1;
    size_t count = c >= 0xc2 && c < 0xe0   ? 2
                   : (c & 0xf0) == 0xe0    ? 3
                   : c >= 0xf0 && c < 0xf5 ? 4
                                           : 0;
    if (!count || left < count)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool bad = (c == 0xe0 && at[1] < 0xa0) || (c == 0xed && at[1] >= 0xa0) ||
               (c == 0xf0 && at[1] < 0x90) || (c == 0xf4 && at[1] >= 0x90);
    return bad ? 0 : count;
}

bool tt_is_utf8(const char *bytes, size_t length) {
    for (size_t i = 0; i < length;) {
        size_t step = tt_utf8_step(bytes + i, length - i);
        if (!step)
            return false;
        i += step;
    }
    return true;
}
