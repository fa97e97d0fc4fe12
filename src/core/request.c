#include "core/request.h"

#include "base/array.h"
#include "base/line.h"

#include <stdlib.h>

const char *tt_drop_reason_name(enum tt_drop_reason reason) {
    switch (reason) {
    case TT_DROP_NONE: return "";
    case TT_DROP_DEADLINE: return "deadline";
    case TT_DROP_EARLY: return "early";
    case TT_DROP_QUEUE_FULL: return "queue_full";
    case TT_DROP_WITHDRAWN: return "withdrawn";
    }
    return "unknown";
}

static enum tt_err pool_reserve(struct tt_request_pool *self) {
    if (!TT_ARRAY_RESERVE(self->chunks, &self->chunk_capacity, self->chunk_count + 1))
        return TT_ERR_NO_MEMORY;
    struct tt_request *chunk = tt_line_alloc(TT_REQUEST_CHUNK * sizeof(*chunk));
    if (!chunk)
        return TT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < TT_REQUEST_CHUNK; i++) {
        chunk[i].handle.index = (uint32_t)(self->chunk_count * TT_REQUEST_CHUNK + i);
        tt_list_push_back(&self->free, &chunk[i].link);
    }
    self->chunks[self->chunk_count++] = chunk;
    return TT_OK;
}

enum tt_err tt_request_pool_init(struct tt_request_pool *self, int32_t reserve, int32_t limit) {
    tt_assert(reserve >= 0 && limit >= 1);
    *self = (struct tt_request_pool){.limit = limit};
    tt_list_init(&self->free);
    while ((int64_t)self->chunk_count * TT_REQUEST_CHUNK < reserve) {
        enum tt_err err = pool_reserve(self);
        if (err) {
            tt_request_pool_fini(self);
            return err;
        }
    }
    return TT_OK;
}

void tt_request_pool_fini(struct tt_request_pool *self) {
    for (int32_t i = 0; i < self->chunk_count; i++)
        free(self->chunks[i]);
    free(self->chunks);
    *self = (struct tt_request_pool){0};
}

/* A new field must be cleared below. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct tt_request) == 128, "see tt_request_pool_take");

struct tt_request *tt_request_pool_take(struct tt_request_pool *self) {
    if (self->in_use == self->limit)
        return NULL;
    if (tt_list_empty(&self->free) && pool_reserve(self) != TT_OK)
        return NULL;
    struct tt_list_node *node = tt_list_first(&self->free);
    tt_list_remove(node);
    struct tt_request *request = TT_CONTAINER_OF(node, struct tt_request, link);
    tt_assert(!(request->handle.generation & 1));
    /* Field by field: clearing so small a struct as a whole costs more than everything else here.
     */
    request->handle.generation++;
    request->policy_word = 0;
    request->drop_reason = 0;
    request->number = 0;
    request->arrived_at = 0;
    request->deadline_at = 0;
    request->model = 0;
    request->rows = 0;
    request->length = 0;
    request->priority = 0;
    request->step = 0;
    request->round = 0;
    request->cancelled = false;
    request->is_ready = false;
    request->waits = false;
    request->reported = false;
    request->begun = false;
    request->task = NULL;
    request->graph = NULL;
    request->cells_in_flight = 0;
    request->keeps_slots = false;
    request->first_given_up = false;
    request->user = NULL;
    self->in_use++;
    return request;
}

void tt_request_pool_give(struct tt_request_pool *self, struct tt_request *take_request) {
    tt_assert(take_request->handle.generation & 1);
    tt_assert(!tt_list_linked(&take_request->link));
    tt_assert(self->in_use > 0);
    take_request->handle.generation++;
    take_request->state = TT_REQUEST_FREE;
    /* The most recently used one is taken next: it is still in the cache. */
    tt_list_push_front(&self->free, &take_request->link);
    self->in_use--;
}

struct tt_request *tt_request_pool_find(const struct tt_request_pool *self,
                                        struct tt_handle handle) {
    if (handle.index / TT_REQUEST_CHUNK >= (uint32_t)self->chunk_count)
        return NULL;
    struct tt_request *request =
        &self->chunks[handle.index / TT_REQUEST_CHUNK][handle.index % TT_REQUEST_CHUNK];
    return request->handle.generation == handle.generation && (handle.generation & 1) ? request
                                                                                      : NULL;
}

struct tt_request *tt_request_pool_at(const struct tt_request_pool *self, uint32_t index) {
    tt_assert(index / TT_REQUEST_CHUNK < (uint32_t)self->chunk_count);
    return &self->chunks[index / TT_REQUEST_CHUNK][index % TT_REQUEST_CHUNK];
}

int32_t tt_request_pool_indices(int32_t reserve, int32_t limit) {
    int32_t most = reserve > limit ? reserve : limit;
    return (most + TT_REQUEST_CHUNK - 1) / TT_REQUEST_CHUNK * TT_REQUEST_CHUNK;
}
