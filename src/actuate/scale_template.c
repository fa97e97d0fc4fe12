#include "actuate/scale_provider.h"

#include <inttypes.h>
#include <string.h>

enum placeholder { POOL, DEVICES, NODES, EPOCH, PLACEHOLDERS };

static const char *const names[PLACEHOLDERS] = {"{pool}", "{devices}", "{nodes}", "{epoch}"};

/* The placeholder that the text begins with; PLACEHOLDERS: none. */
static enum placeholder begins(const char *text) {
    enum placeholder i = POOL;
    while (i < PLACEHOLDERS && strncmp(text, names[i], strlen(names[i])) != 0)
        i++;
    return i;
}

enum tt_err tt_scale_template_check(const char *template_text, struct tt_error *why) {
    for (const char *at = template_text; *(at += strcspn(at, "{}"));) {
        enum placeholder found = begins(at);
        if (found == PLACEHOLDERS)
            return tt_fail(TT_ERR_INVALID, why,
                           "'%.40s' is no placeholder; there are {pool}, {devices}, {nodes} and "
                           "{epoch}",
                           at);
        at += strlen(names[found]);
    }
    return TT_OK;
}

void tt_scale_template_put(const char *template_text, const struct tt_scale_request *request,
                           struct tt_text *out) {
    for (const char *at = template_text; *at;) {
        size_t plain = strcspn(at, "{");
        tt_text_append(out, at, plain);
        at += plain;
        enum placeholder found = begins(at);
        switch (found) {
        case POOL: tt_text_puts(out, request->pool); break;
        case DEVICES: tt_text_printf(out, "%" PRId32, request->devices); break;
        case NODES: tt_text_printf(out, "%" PRId32, request->count); break;
        case EPOCH: tt_text_printf(out, "%" PRIu64, request->epoch); break;
        case PLACEHOLDERS: break;
        }
        at += found == PLACEHOLDERS ? 0 : strlen(names[found]);
        if (found == PLACEHOLDERS && *at) /* was refused by the check */
            tt_text_append(out, at++, 1);
    }
}
