/* What a node and its peers have agreed to share: the memory itself, and by which peer it is read.
 *
 * Life of the agreement with one peer: _link up -> a frontend offers (_offer), a backend accepts
 * (_accept), and the frontend notes it (_agreed) -> _link down, or the next offer, ends it. The
 * messages between them are fleet/memory_exchange.h's; tensors are fleet/node_memory.h's. It sends
 * nothing.
 *
 * One thread, that of the loop. Implemented in memory_agreement.c. */
#ifndef TT_FLEET_MEMORY_AGREEMENT_H
#define TT_FLEET_MEMORY_AGREEMENT_H

#include "cluster/cluster.h"
#include "cluster/frame.h"
#include "fleet/cluster_file.h"
#include "fleet/input_board.h"
#include "fleet/memory_greeting.h"
#include "fleet/result_ring.h"

struct tt_log;
struct tt_ucx_library;

enum tt_memory_use {
    TT_MEMORY_AUTO, /* where it can be */
    TT_MEMORY_OFF,
    TT_MEMORY_REQUIRED, /* a frontend is not ready while a linked backend lacks it */
};

struct tt_node_memory_options {
    const struct tt_cluster_file *file; /* borrowed, as all of these */
    uint16_t number;                    /* of this node */
    enum tt_memory_use use;
    int32_t request_limit; /* of a frontend */
    struct tt_log *log;
    /* The key of the link's session; NULL: there is no link. */
    const uint8_t *(*session)(void *context, uint16_t peer);
    /* UCX in place of memory of one host; NULL: not. */
    const struct tt_ucx_library *ucx;
    bool accepts_emulated; /* lanes of UCX that are not one-sided */
    /* With UCX: of the peer (fleet/handshake.h); as tt_node_links_send(). */
    uint16_t (*abilities)(void *context, uint16_t peer);
    uint8_t *(*send)(void *context, uint16_t peer, const struct tt_frame *frame,
                     size_t payload_bytes);
    /* What tt_node_memory_fetch() began has ended. `payload`: until it returns; NULL: the input
     * could not be read. */
    void (*fetched)(void *context, uint16_t peer, uint64_t id, uint16_t attempt,
                    const uint8_t *payload, size_t bytes);
    void *context;
};

struct tt_memory_peer {
    bool is_linked, is_shared;
    struct tt_input_reader inputs;   /* of a frontend */
    struct tt_result_writer writer;  /* the same */
    struct tt_result_reader results; /* of a backend */
};

struct tt_memory_agreement {
    struct tt_node_memory_options options;
    struct tt_memory_peer *peers; /* [file->count]; NULL: no memory is shared */
    struct tt_input_board board;  /* of a frontend */
    int32_t shared;               /* peers */
};

/* Errors: NO_MEMORY, IO. On IO the peers are there, but a frontend has no board; with UCX
 * fleet/remote_memory.h makes it. */
TT_MUST_CHECK enum tt_err tt_memory_agreement_init(struct tt_memory_agreement *self,
                                                   const struct tt_node_memory_options *options,
                                                   struct tt_error *why);
/* Also of a zero-initialized one. */
void tt_memory_agreement_fini(struct tt_memory_agreement *self);
/* A link is up, or is no more: what was agreed ends. */
void tt_memory_agreement_link(struct tt_memory_agreement *self, uint16_t peer, bool is_up);

/* The peer's memory, or room for its results, is in use from now on; or not any more. */
void tt_memory_agreement_share(struct tt_memory_agreement *self, uint16_t peer);
void tt_memory_agreement_forget(struct tt_memory_agreement *self, uint16_t peer);

/* A frontend makes room for the backend's results. It fills in sizes, and the descriptors of inputs
 * and results, which stay its own. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_memory_agreement_offer(struct tt_memory_agreement *self,
                                                    uint16_t backend,
                                                    struct tt_memory_message *out_message,
                                                    int out_fds[TT_MEMORY_DESCRIPTORS],
                                                    struct tt_error *why);
/* The backend accepted that. */
void tt_memory_agreement_agreed(struct tt_memory_agreement *self, uint16_t backend);
/* A backend maps what a frontend offers, and closes both descriptors in any case. Errors: INVALID,
 * IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_memory_agreement_accept(struct tt_memory_agreement *self,
                                                     uint16_t frontend,
                                                     const struct tt_memory_message *message,
                                                     const int take_fds[TT_MEMORY_DESCRIPTORS],
                                                     struct tt_error *why);

#endif
