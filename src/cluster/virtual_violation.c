#include "cluster/virtual_node.h"

#include "base/instant.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void tt_virtual_violate(struct tt_virtual_cluster *self, int64_t now, const char *format, ...) {
    if (self->result->violation[0])
        return;
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(self->result->violation, sizeof(self->result->violation),
             "at %" PRId64 ".%06" PRId64 " ms: %s", now / TT_MS, now % TT_MS, text);
}
