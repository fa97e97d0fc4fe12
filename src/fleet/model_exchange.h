/* How the nodes of a cluster learn of each other's models: notices over the links, and what the
 * numbers of each peer mean.
 *
 * Life: _init; per link _link up: a notice of each own model goes to the peer, before any other
 * frame of this link -> _receive for each notice of the peer, which may bring a model ->
 * _translate for each other frame -> _link down; _fini. Notices go between schedulers and all other
 * nodes, since frontends and backends name no models to each other. A model that comes is passed
 * on to all peers; the one that it came from gets to know its number here.
 *
 * It extends the table of models and the settings of the roles, and reports each model that came.
 * One thread, the node's. Implemented in model_exchange.c. */
#ifndef TT_FLEET_MODEL_EXCHANGE_H
#define TT_FLEET_MODEL_EXCHANGE_H

#include "fleet/fleet_models.h"
#include "fleet/model_numbers.h"
#include "fleet/node_links.h"

struct tt_log;

struct tt_model_exchange_options {
    struct tt_fleet_models *models; /* borrowed, as all of these */
    struct tt_cluster_settings *settings;
    struct tt_node_links *links;
    const struct tt_cluster_file *file;
    uint16_t number; /* of this node */
    struct tt_log *log;
    /* A model has come, the last one of the settings, from `peer`; TT_CLUSTER_NO_NODE: from here.
     * `serves`: it is to serve at once, since the peer serves it and no other of its name is known.
     */
    void (*came)(void *context, int32_t model, uint16_t peer, bool serves);
    /* The peer has, or has not, the model loaded. */
    void (*held)(void *context, int32_t model, uint16_t peer, bool is_held);
    /* A backend states how long its model takes. */
    void (*paced)(void *context, int32_t model, uint16_t peer,
                  const struct tt_model_notice *notice);
    void *context;
};

struct tt_model_exchange {
    struct tt_model_exchange_options options;
    struct tt_model_numbers numbers;
    int64_t refused; /* notices of models that this node cannot know */
};

/* Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_exchange_init(struct tt_model_exchange *self,
                                                 const struct tt_model_exchange_options *options);
/* Also of a zero-initialized one. */
void tt_model_exchange_fini(struct tt_model_exchange *self);
void tt_model_exchange_link(struct tt_model_exchange *self, uint16_t peer, bool is_up);
/* A frame MODEL. */
void tt_model_exchange_receive(struct tt_model_exchange *self, uint16_t peer,
                               const struct tt_received *received);
/* The frame, which was read last from the links, has this node's numbers afterwards. */
void tt_model_exchange_translate(struct tt_model_exchange *self, uint16_t peer,
                                 struct tt_frame *frame);
/* This node has loaded or unloaded the group, and models of the table that are not in the settings
 * yet have come: the peers get notice. */
void tt_model_exchange_changed(struct tt_model_exchange *self, int32_t group);

#endif
