/* The statistics of all models and the repository's index, of grpc_work.h. */
#include "net/grpc/grpc_methods.h"
#include "net/grpc/grpc_work.h"
#include "serve/catalogue.h"
#include "serve/port.h"

/* The key of an index: whether it has only what is ready. */
static enum tt_err begin_page(void *context, int64_t key, struct tt_error *why) {
    struct tt_grpc_page *self = context;
    (void)why;
    self->key = key;
    self->catalogue = tt_catalogue_ref(tt_port_catalogue(self->all->service.port));
    return TT_OK;
}

static void end_page(void *context) {
    struct tt_grpc_page *self = context;
    tt_catalogue_unref(self->catalogue);
    self->catalogue = NULL;
}

static enum tt_err write_statistics(void *context, struct tt_text *out, struct tt_error *why) {
    const struct tt_grpc_page *self = context;
    struct tt_kserve_statistics statistics;
    enum tt_err err = tt_kserve_statistics_of_all(&statistics, self->catalogue, why);
    if (err)
        return err;
    err = tt_grpc_pack_statistics(&statistics, out, why);
    tt_kserve_statistics_fini(&statistics);
    return err;
}

static enum tt_err write_index(void *context, struct tt_text *out, struct tt_error *why) {
    const struct tt_grpc_page *self = context;
    struct tt_kserve_index index;
    enum tt_err err = tt_kserve_index_of(&index, self->catalogue, self->key != 0, why);
    if (err)
        return err;
    err = tt_grpc_pack_index(&index, out, why);
    tt_kserve_index_fini(&index);
    return err;
}

void tt_grpc_pages_init(struct tt_grpc_calls *all) {
    static const struct tt_page_kind statistics = {begin_page, write_statistics, end_page};
    static const struct tt_page_kind index = {begin_page, write_index, end_page};
    all->statistics = (struct tt_grpc_page){.all = all};
    all->index = (struct tt_grpc_page){.all = all};
    tt_page_writer_init(&all->statistics.writer, &statistics, &all->statistics, all->turn);
    tt_page_writer_init(&all->index.writer, &index, &all->index, all->turn);
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

bool tt_grpc_call_page(struct tt_grpc_call *call, const char *bytes, size_t size_bytes) {
    struct tt_grpc_calls *all = call->all;
    const struct tt_catalogue *catalogue = tt_port_catalogue(all->service.port);
    bool is_index = call->method->kind == TT_GRPC_INDEX, only_ready = false;
    struct tt_kserve_target target;
    struct tt_error why;
    if (!all->loop || !catalogue ||
        catalogue->count <= (is_index ? TT_SHARED_PAGE_ENTRIES : TT_SHARED_PAGE_MODELS))
        return false;
    if (is_index ? tt_grpc_read_index(bytes, size_bytes, &only_ready, &why) != TT_OK
                 : tt_grpc_read_target(bytes, size_bytes, &target, &why) != TT_OK || *target.model)
        return false;
    call->running_count++;
    call->asker = (struct tt_page_asker){.done = on_page, .key = only_ready};
    tt_page_writer_ask(is_index ? &all->index.writer : &all->statistics.writer, all->loop,
                       &call->asker);
    return true;
}
