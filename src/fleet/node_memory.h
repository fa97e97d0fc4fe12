/* Memory as the way of tensors between a frontend and a backend.
 *
 * Tensors travel over TCP unless both nodes run on one host and as one user, or both use UCX; then
 * memory replaces the payloads, and frames go on over the link:
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
 * With UCX the memory is reached through it instead, also between hosts: fleet/remote_memory.h has
 * the messages, and how inputs are read and results written, which takes a while.
 *
 * It puts fleet/memory_agreement.h (what is shared) and fleet/memory_exchange.h (the messages)
 * together. One thread, that of the loop. Implemented in node_memory.c. */
#ifndef TT_FLEET_NODE_MEMORY_H
#define TT_FLEET_NODE_MEMORY_H

#include "cluster/frame.h"
#include "fleet/memory_agreement.h"

#include <uv.h>

struct tt_memory_exchange;
struct tt_remote_memory;

struct tt_node_memory {
    struct tt_memory_agreement agreement;
    struct tt_memory_exchange *exchange; /* NULL: no memory is shared, or through UCX */
    struct tt_remote_memory *remote;     /* NULL: not through UCX */

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
/* The payload of a frame REMOTE. */
void tt_node_memory_receive(struct tt_node_memory *self, uint16_t peer, const uint8_t *payload,
                            size_t bytes);
/* Before the loop waits. False: something has ended, and the caller's turn begins again. */
TT_MUST_CHECK bool tt_node_memory_rest(struct tt_node_memory *self);
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
/* Begins to read the input through UCX; `fetched` follows, never from this call. False: ask the
 * frontend. */
TT_MUST_CHECK bool tt_node_memory_fetch(struct tt_node_memory *self, uint16_t peer, uint64_t id,
                                        uint16_t attempt);
/* The peer's memory is reached through UCX. */
bool tt_node_memory_is_remote(const struct tt_node_memory *self, uint16_t peer);
/* Through UCX: where a result is to be written, then _push, which sends the record when it is
 * there; NULL: there is no room, or the memory is of this host. */
uint8_t *tt_node_memory_stage(struct tt_node_memory *self, uint16_t peer, size_t bytes);
void tt_node_memory_push(struct tt_node_memory *self, uint16_t peer, uint64_t epoch,
                         const struct tt_frame_record *record);
/* Where a result is to be written, and the duration that its record has; NULL: there is no room. */
uint8_t *tt_node_memory_room(struct tt_node_memory *self, uint16_t peer, size_t bytes,
                             int64_t *out_duration);

#endif
