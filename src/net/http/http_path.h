/* The path of a request's target, in parts. Splitting comes before decoding, so that an encoded
 * slash stays a part of its name; names are UTF-8. Pure functions. Implemented in http_path.c. */
#ifndef TT_NET_HTTP_HTTP_PATH_H
#define TT_NET_HTTP_HTTP_PATH_H

#include <stdbool.h>

enum { TT_HTTP_PATH_SEGMENTS = 8 };

struct tt_http_path {
    int count; /* -1: malformed */
    char *segments[TT_HTTP_PATH_SEGMENTS];
    char bytes[2048];
};

void tt_http_path_split(const char *target, struct tt_http_path *out);
/* True: from part `from` on, the parts are exactly these. */
bool tt_http_path_is(const struct tt_http_path *path, int from, const char *const names[],
                     int count);

#endif
