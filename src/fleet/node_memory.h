/* Shared memory as the way of tensors between a frontend and a backend of one host.
 *
 * Tensors travel over TCP unless both nodes run on one host and as one user; then memory replaces
 * the payloads, and frames go on over the link:
 *   - export: a frontend writes each input once, where all backends of the host can read it;
 *   - fetch: a backend that is granted requests reads their inputs, without the frontend's help;
 *   - send: it writes a result into room that the frontend gave it, and the record RESULT names the
 *     place;
 *   - what finds no room, or came before the agreement, travels over TCP.
 *
 * Life of the agreement: a link is up -> the frontend greets the backend's Unix socket
 * (fleet/memory_greeting.h) -> both have the memory -> the link ends, and so does the agreement. If
 * a process ends, the other one keeps its mapping until then.
 *
 * One thread, that of the loop. Implemented in node_memory.c (memory) and memory_exchange.c
 * (the agreement). */
#ifndef TT_FLEET_NODE_MEMORY_H
#define TT_FLEET_NODE_MEMORY_H

#include "cluster/cluster.h"
#include "cluster/frame.h"
#include "fleet/cluster_file.h"
#include "fleet/input_board.h"
#include "fleet/memory_greeting.h"
#include "fleet/result_ring.h"

#include <uv.h>

struct tt_log;
struct tt_memory_exchange;

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
    void *context;
};

struct tt_memory_peer {
    bool is_linked, is_shared;
    struct tt_input_reader inputs;   /* of a frontend */
    struct tt_result_writer writer;  /* the same */
    struct tt_result_reader results; /* of a backend */
};

struct tt_node_memory {
    struct tt_node_memory_options options;
    struct tt_memory_peer *peers; /* [file->count]; NULL: no memory is shared */
    struct tt_input_board board;  /* of a frontend */
    struct tt_memory_exchange *exchange;
    int32_t shared;          /* peers */
    int64_t inputs, results; /* read by a backend, or written; taken by a frontend */
};

/* Errors: NO_MEMORY; IO, with TT_MEMORY_REQUIRED only. Schedulers share none. */
TT_MUST_CHECK enum tt_err tt_node_memory_open(struct tt_node_memory *self, uv_loop_t *loop,
                                              const struct tt_node_memory_options *options,
                                              struct tt_error *why);
/* Ends agreements that are under way. The handles are free after the loop has run once more. */
void tt_node_memory_close(struct tt_node_memory *self);
/* After that; also of a zero-initialized one. */
void tt_node_memory_fini(struct tt_node_memory *self);
/* A link is up, or is no more. Pointers into the peer's memory end. */
void tt_node_memory_link(struct tt_node_memory *self, uint16_t peer, bool is_up);
/* Memory is required, and a linked backend does not share it. */
bool tt_node_memory_lacks(const struct tt_node_memory *self);

/* ---- a frontend ---- */

/* Where the request's input is to be written before _publish; NULL: no backend reads it, or there
 * is no room. */
uint8_t *tt_node_memory_reserve(struct tt_node_memory *self, uint64_t id, size_t bytes);
void tt_node_memory_publish(struct tt_node_memory *self, uint64_t id, size_t bytes);
/* The request leaves; it may not be there. */
void tt_node_memory_withdraw(struct tt_node_memory *self, uint64_t id);
/* The result that the record names, `length` bytes that may change at any time; NULL: there is
 * none. Once for each such record, then _taken. */
const uint8_t *tt_node_memory_result(struct tt_node_memory *self, uint16_t peer,
                                     const struct tt_frame_record *record);
void tt_node_memory_taken(struct tt_node_memory *self, uint16_t peer);

/* ---- a backend ---- */

/* The request's input, which may change at any time; NULL: ask the frontend. */
const uint8_t *tt_node_memory_input(const struct tt_node_memory *self, uint16_t peer, uint64_t id,
                                    size_t *out_bytes);
/* After the input was read: what was read is the request's. */
bool tt_node_memory_has_input(struct tt_node_memory *self, uint16_t peer, uint64_t id);
/* Where a result is to be written, and the duration that its record has; NULL: there is no room. */
uint8_t *tt_node_memory_room(struct tt_node_memory *self, uint16_t peer, size_t bytes,
                             int64_t *out_duration);

/* ---- the agreement (memory_exchange.c) ---- */

/* A frontend makes room for the backend's results. It fills in sizes, and the descriptors of inputs
 * and results, which stay its own. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_node_memory_offer(struct tt_node_memory *self, uint16_t backend,
                                               struct tt_memory_message *out_message,
                                               int out_fds[TT_MEMORY_DESCRIPTORS],
                                               struct tt_error *why);
/* The backend accepted that. */
void tt_node_memory_agreed(struct tt_node_memory *self, uint16_t backend);
/* A backend maps what a frontend offers, and closes both descriptors in any case. Errors: INVALID,
 * IO, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_node_memory_accept(struct tt_node_memory *self, uint16_t frontend,
                                                const struct tt_memory_message *message,
                                                const int take_fds[TT_MEMORY_DESCRIPTORS],
                                                struct tt_error *why);

#endif
