#include "net/http/http_path.h"

#include "base/utf8.h"

#include <string.h>

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

void tt_http_path_split(const char *target, struct tt_http_path *out) {
    if (strncmp(target, "http://", 7) == 0) { /* the absolute form, as sent to proxies, is legal */
        target = strchr(target + 7, '/');
        target = target ? target : "/";
    }
    out->count = -1;
    if (*target != '/')
        return;
    size_t used = 0;
    int count = 0;
    unsigned char seen = 0; /* bits of all bytes */
    while (*target == '/') {
        target++;
        if (!*target || *target == '?')
            break; /* one slash at the end is ignored */
        if (count == TT_HTTP_PATH_SEGMENTS)
            return;
        out->segments[count++] = out->bytes + used;
        for (; *target && *target != '/' && *target != '?'; target++) {
            char c = *target;
            if (c == '%') {
                int high = hex(target[1]), low = high < 0 ? -1 : hex(target[2]);
                if (low < 0 || (high == 0 && low == 0))
                    return;
                c = (char)(high * 16 + low);
                target += 2;
            }
            if (used + 2 >= sizeof(out->bytes))
                return;
            out->bytes[used++] = c;
            seen |= (unsigned char)c;
        }
        out->bytes[used++] = '\0';
    }
    for (int i = 0; i < count && seen >= 0x80; i++)
        if (!tt_is_utf8(out->segments[i], strlen(out->segments[i])))
            return;
    out->count = count;
}

bool tt_http_path_is(const struct tt_http_path *path, int from, const char *const names[],
                     int count) {
    if (path->count != from + count)
        return false;
    for (int i = 0; i < count; i++)
        if (strcmp(path->segments[from + i], names[i]) != 0)
            return false;
    return true;
}
