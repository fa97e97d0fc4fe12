/* The pages of http_routes.h about shared memory. */
#include "net/http/http_routes.h"
#include "net/json/json_tensor.h"
#include "net/kserve/kserve_bodies.h"
#include "net/kserve/shared_memory.h"

#include <string.h>

struct listing {
    struct tt_text text;
    bool any;
};

static void put_region(void *context, const char *name, const char *key, uint64_t offset,
                       uint64_t size) {
    struct listing *listing = context;
    tt_text_puts(&listing->text, listing->any ? ",{\"name\":" : "{\"name\":");
    listing->any = true;
    tt_json_write_string(&listing->text, name, strlen(name));
    tt_text_puts(&listing->text, ",\"key\":");
    tt_json_write_string(&listing->text, key, strlen(key));
    tt_text_printf(&listing->text, ",\"offset\":%llu,\"byte_size\":%llu}",
                   (unsigned long long)offset, (unsigned long long)size);
}

void tt_page_memory_status(const struct tt_http_context *context, const char *name,
                           struct tt_reply *reply) {
    struct listing listing = {.any = false};
    struct tt_error why;
    tt_text_init(&listing.text);
    tt_text_puts(&listing.text, "[");
    enum tt_err err =
        tt_shared_memory_each(context->service.memory, name, put_region, &listing, &why);
    tt_text_puts(&listing.text, "]");
    if (err) {
        tt_text_fini(&listing.text);
        tt_reply_error(reply, err, why.text);
    } else {
        *tt_reply_json(reply) = listing.text;
    }
}

void tt_page_memory_change(const struct tt_http_context *context, const char *name, bool registers,
                           const struct tt_http_request *request, struct tt_reply *reply) {
    struct tt_kserve_region region;
    struct tt_error why;
    enum tt_err err = TT_OK;
    if (registers)
        err = tt_kserve_read_region(request->body, request->body_bytes, &region, &why);
    if (!err && registers)
        err = tt_shared_memory_register(context->service.memory, name, region.key, region.offset,
                                        region.size, &why);
    if (!registers)
        tt_shared_memory_unregister(context->service.memory, name);
    if (err)
        tt_reply_error(reply, err, why.text);
    else
        reply->status = 200;
}
