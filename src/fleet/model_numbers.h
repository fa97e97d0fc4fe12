/* What the numbers that other nodes give to models mean here.
 *
 * Each node has its own table of models (fleet/fleet_models.h). A peer's notices (fleet/
 * model_notice.h) say what its numbers stand for; this module keeps that per peer and rewrites the
 * frames that come from it, so that a role sees its own numbers only. A number that no notice was
 * about becomes TT_CLUSTER_NO_MODEL. What a node sends has its own numbers: the receiver
 * translates.
 *
 * Life: _init; per link _forget, then _set for each notice, then _translate for each frame; _fini.
 * It allocates when a peer's first notice comes, never for a frame. One thread, the node's.
 * Implemented in model_numbers.c. */
#ifndef TT_FLEET_MODEL_NUMBERS_H
#define TT_FLEET_MODEL_NUMBERS_H

#include "cluster/cluster.h"
#include "cluster/frame.h"

struct tt_model_numbers {
    int32_t node_count;
    uint16_t **peers;            /* [node_count][TT_CLUSTER_MAX_MODELS]; NULL: no notice came */
    struct tt_frame_record *set; /* [TT_CLUSTER_MAX_MODELS]: a translated SERVE */
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_numbers_init(struct tt_model_numbers *self, int32_t node_count);
/* Also of a zero-initialized one. */
void tt_model_numbers_fini(struct tt_model_numbers *self);
/* A link is up, or is no more. */
void tt_model_numbers_forget(struct tt_model_numbers *self, uint16_t peer);
/* `theirs` is below TT_CLUSTER_MAX_MODELS. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_numbers_set(struct tt_model_numbers *self, uint16_t peer,
                                               uint16_t theirs, uint16_t ours);
/* TT_CLUSTER_NO_MODEL: no notice was about it. */
uint16_t tt_model_numbers_find(const struct tt_model_numbers *self, uint16_t peer, uint16_t theirs);
/* Rewrites the frame, whose records are `records`. A SERVE gets a record for each of the own
 * `model_count` models, in their order, borrowed until the next call: what the peer does not know
 * is not to be served, and is in TT_CLUSTER_NO_POOL. */
void tt_model_numbers_translate(struct tt_model_numbers *self, uint16_t peer, int32_t model_count,
                                struct tt_frame_record *records, struct tt_frame *frame);

#endif
