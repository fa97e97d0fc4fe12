#include "fleet/model_numbers.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_model_numbers_init(struct tt_model_numbers *self, int32_t node_count) {
    tt_assert(node_count > 0);
    *self = (struct tt_model_numbers){
        .node_count = node_count,
        .peers = calloc((size_t)node_count, sizeof(*self->peers)),
        .set = calloc(TT_CLUSTER_MAX_MODELS, sizeof(*self->set)),
    };
    if (self->peers && self->set)
        return TT_OK;
    tt_model_numbers_fini(self);
    return TT_ERR_NO_MEMORY;
}

void tt_model_numbers_fini(struct tt_model_numbers *self) {
    for (int32_t i = 0; self->peers && i < self->node_count; i++)
        free(self->peers[i]);
    free(self->peers);
    free(self->set);
    *self = (struct tt_model_numbers){.node_count = 0};
}

void tt_model_numbers_forget(struct tt_model_numbers *self, uint16_t peer) {
    tt_assert(peer < self->node_count);
    free(self->peers[peer]);
    self->peers[peer] = NULL;
}

enum tt_err tt_model_numbers_set(struct tt_model_numbers *self, uint16_t peer, uint16_t theirs,
                                 uint16_t ours) {
    tt_assert(peer < self->node_count && theirs < TT_CLUSTER_MAX_MODELS);
    if (!self->peers[peer]) {
        size_t bytes = TT_CLUSTER_MAX_MODELS * sizeof(*self->peers[peer]);
        self->peers[peer] = malloc(bytes);
        if (!self->peers[peer])
            return TT_ERR_NO_MEMORY;
        memset(self->peers[peer], 0xff, bytes); /* TT_CLUSTER_NO_MODEL */
    }
    self->peers[peer][theirs] = ours;
    return TT_OK;
}

uint16_t tt_model_numbers_find(const struct tt_model_numbers *self, uint16_t peer,
                               uint16_t theirs) {
    if (!self->peers[peer] || theirs >= TT_CLUSTER_MAX_MODELS)
        return TT_CLUSTER_NO_MODEL;
    return self->peers[peer][theirs];
}

/* The peer's set, in the order of the own numbers. */
static void translate_set(struct tt_model_numbers *self, uint16_t peer, int32_t model_count,
                          struct tt_frame *frame) {
    const struct tt_frame_record *first = &frame->records[0];
    tt_assert(model_count > 0 && model_count <= TT_CLUSTER_MAX_MODELS);
    for (int32_t i = 0; i < model_count; i++)
        self->set[i] = (struct tt_frame_record){.id = first->id,
                                                .length = first->length,
                                                .model = (uint16_t)i,
                                                .device = TT_CLUSTER_NO_POOL};
    for (int32_t i = 0; i < frame->count; i++) {
        uint16_t ours = tt_model_numbers_find(self, peer, frame->records[i].model);
        if (ours >= model_count)
            continue;
        self->set[ours] = frame->records[i];
        self->set[ours].model = ours;
    }
    frame->records = self->set;
    frame->count = model_count;
}

void tt_model_numbers_translate(struct tt_model_numbers *self, uint16_t peer, int32_t model_count,
                                struct tt_frame_record *records, struct tt_frame *frame) {
    int32_t first = 0, end = 0; /* the records that have a model */
    switch (frame->type) {
    case TT_FRAME_SERVE: translate_set(self, peer, model_count, frame); return;
    case TT_FRAME_TICKET:
    case TT_FRAME_WISH: end = frame->count; break;
    case TT_FRAME_GRANT: end = 1; break;
    case TT_FRAME_SERVED:
        first = 1;
        end = frame->count;
        break;
    case TT_FRAME_CANCEL:
    case TT_FRAME_ACCEPTED:
    case TT_FRAME_FETCH:
    case TT_FRAME_INPUT:
    case TT_FRAME_RESULT:
    case TT_FRAME_DONE:
    case TT_FRAME_LEAVE:
    case TT_FRAME_MISSING:
    case TT_FRAME_RETURN:
    case TT_FRAME_DROP:
    case TT_FRAME_CLAIM:
    case TT_FRAME_STATE:
    case TT_FRAME_STALE:
    case TT_FRAME_BEAT:
    case TT_FRAME_ASK:
    case TT_FRAME_RESIGN:
    case TT_FRAME_OPINION:
    case TT_FRAME_WISHED:
    case TT_FRAME_REMOTE:
    case TT_FRAME_MODEL:
    case TT_FRAME_WORDS:
    case TT_FRAME_TYPES: return;
    }
    tt_assert(frame->count == 0 || frame->records == records);
    for (int32_t i = first; i < end; i++)
        records[i].model = tt_model_numbers_find(self, peer, records[i].model);
}
