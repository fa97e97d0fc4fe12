/* Memory of frontends that backends reach through UCX: the way of tensors between hosts with RDMA.
 *
 * It takes the place of the memory that nodes of one host share (fleet/node_memory.h), with the
 * same parts: the frontend's board of inputs, and a ring for each backend's results. Here a backend
 * has no mapping but an endpoint and keys:
 *   - fetch: it gets the entry of the board, then the payload, then the entry's id again; if that
 *     is the same, the payload is the request's. The frontend runs no code for it;
 *   - push: it writes a result into its own image of the ring, puts it, and sends the record RESULT
 *     when the bytes are in the frontend's memory. Records go out in the order of their places;
 *   - what finds no room, or fails, travels over TCP.
 *
 * Life of an agreement: a link is up -> the frontend offers (fleet/remote_greeting.h) -> the
 * backend connects, reads once, and then reads while the frontend makes no progress. If that does
 * not succeed, the lanes are emulated: each access would wait for the frontend's processor, and TCP
 * is faster. The backend refuses then, naming the lanes, unless it may use them. -> The link ends,
 * or an operation fails: TCP from then on; the frontend offers anew, at growing intervals.
 *
 * Liveness is the link's: UCX need not notice that a peer froze.
 *
 * One thread, that of the loop. Used by fleet/node_memory.c. Implemented in remote_memory.c
 * (life), remote_agreement.c, remote_fetch.c and remote_push.c; what they share is in
 * fleet/remote_session.h. */
#ifndef TT_FLEET_REMOTE_MEMORY_H
#define TT_FLEET_REMOTE_MEMORY_H

#include "base/err.h"
#include "cluster/frame.h"

#include <uv.h>

struct tt_memory_agreement;
struct tt_remote_memory;

/* Makes the board of a frontend. `inputs` counts what a backend reads. Errors: NO_MEMORY,
 * UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_remote_memory_open(struct tt_memory_agreement *agreement,
                                                int64_t *inputs, uv_loop_t *loop,
                                                struct tt_remote_memory **out_self,
                                                struct tt_error *why);
/* Ends all agreements. The handles are free after the loop has run once more. */
void tt_remote_memory_close(struct tt_remote_memory *self);
void tt_remote_memory_free(struct tt_remote_memory *take_self); /* NULL-safe */

/* A link is up, or is no more. */
void tt_remote_memory_link(struct tt_remote_memory *self, uint16_t peer, bool is_up);
/* The payload of a frame REMOTE. */
void tt_remote_memory_receive(struct tt_remote_memory *self, uint16_t peer, const uint8_t *payload,
                              size_t bytes);
/* Before the loop waits. False: operations have ended, and the caller's turn begins again. */
TT_MUST_CHECK bool tt_remote_memory_rest(struct tt_remote_memory *self);

/* ---- a backend ---- */

/* Reads the request's input; the node's `fetched` follows. False: ask the frontend. */
TT_MUST_CHECK bool tt_remote_memory_fetch(struct tt_remote_memory *self, uint16_t frontend,
                                          uint64_t id, uint16_t attempt);
/* Where a result is to be written, then _push; NULL: there is no room, or no agreement. */
uint8_t *tt_remote_memory_stage(struct tt_remote_memory *self, uint16_t frontend, size_t bytes);
/* The staged result is written. Its record goes out when it has arrived. */
void tt_remote_memory_push(struct tt_remote_memory *self, uint16_t frontend, uint64_t epoch,
                           const struct tt_frame_record *record);

void tt_remote_memory_check(const struct tt_remote_memory *self);

#endif
