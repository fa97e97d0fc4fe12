/* The statistics of all models, of grpc_work.h. */
#include "net/grpc/grpc_methods.h"
#include "net/grpc/grpc_work.h"
#include "serve/catalogue.h"
#include "serve/port.h"

static enum tt_err begin_page(void *context, struct tt_error *why) {
    struct tt_grpc_calls *all = context;
    return tt_kserve_statistics_init(&all->all, &all->service, NULL, why);
}

static enum tt_err write_page(void *context, struct tt_text *out, struct tt_error *why) {
    const struct tt_grpc_calls *all = context;
    return tt_grpc_pack_statistics(&all->all, out, why);
}

static void end_page(void *context) {
    tt_kserve_statistics_fini(&((struct tt_grpc_calls *)context)->all);
}

static const struct tt_page_kind kind = {begin_page, write_page, end_page};

void tt_grpc_statistics_init(struct tt_grpc_calls *all) {
    tt_page_writer_init(&all->statistics, &kind, all);
}

static void on_page(struct tt_page_asker *asker, struct tt_shared_page *page, enum tt_err err,
                    const struct tt_error *why) {
    struct tt_grpc_call *call = TT_CONTAINER_OF(asker, struct tt_grpc_call, asker);
    call->running_count--;
    if (!call->is_over && err)
        tt_grpc_call_fail(call, tt_grpc_status_of(err), why->text);
    else if (!call->is_over)
        tt_grpc_call_send_bytes(call, page->text.bytes, page->text.length);
    if (!call->is_over)
        tt_grpc_call_finish(call);
    tt_grpc_call_proceed(call);
}

bool tt_grpc_call_statistics(struct tt_grpc_call *call, const char *bytes, size_t size_bytes) {
    struct tt_grpc_calls *all = call->all;
    const struct tt_catalogue *catalogue = tt_port_catalogue(all->service.port);
    struct tt_kserve_target target;
    struct tt_error why;
    if (!all->loop || !catalogue || catalogue->count <= TT_SHARED_PAGE_MODELS ||
        tt_grpc_read_target(bytes, size_bytes, &target, &why) != TT_OK || *target.model)
        return false;
    call->running_count++;
    call->asker.done = on_page;
    tt_page_writer_ask(&all->statistics, all->loop, &call->asker);
    return true;
}
