/* The inputs of one model in its engine's memory, for policies that wait for them (E1).
 *
 * A ring of slots (core/slot_ring.h) that all ports of the server share, and per input of the model
 * an array indexed by slot. Successive requests, on whatever connections, are adjacent, so any
 * range of them is a batch that the engine binds in place.
 *
 * Life of an input: its request takes the next slots at begin, and the connection's thread writes
 * it there while executors compute. Once written, its request is submitted and ready: this
 * machine's processors compute in the memory that the sockets are read to. The slots come back when
 * the request has left, in any order. No range crosses the end of the ring; the slots left over
 * there are lost for one lap (at most the rows of the request that did not fit, minus one).
 *
 * Without free slots the input is written to memory of the request's own. The request is in its
 * domain but not ready. Giving slots back moves the longest waiting requests to them, in the order
 * of submission; later ones queue behind. So a full ring costs one copy per request that it held
 * back, and loses none. The server's limits of requests and bytes (serve/limits.h) bound what may
 * wait; beyond them tt_inference_begin() returns BUSY.
 *
 * On an engine that copies inputs to a device when they arrive (struct tt_engine_input_ops), the
 * slots are the engine's memory, and a request's copy is sent when it is submitted, or gets its
 * slots. If the policy does not wait for inputs, no request is held: one that finds no slots is
 * copied with its batch.
 *
 * One lock guards all of it, for the ports' threads and the scheduler; the move is a memcpy under
 * it. It notifies no one; _give() returns true if the caller must wake the scheduler. Implemented
 * in input_ring.c. */
#ifndef TT_SERVE_INPUT_RING_H
#define TT_SERVE_INPUT_RING_H

#include "base/list.h"
#include "base/threads/counter.h"
#include "base/threads/lock.h"
#include "core/slot_ring.h"
#include "core/tensor.h"
#include "engine/engine.h"

struct tt_inference;

struct tt_input_ring {
    struct tt_list_node in_domain; /* the domain's */
    struct tt_lock lock; /* guards what follows, but not the bytes of slots that were given out */
    struct tt_slot_ring slots;
    /* NULL: not shown. While a model is loaded again it has two rings, which both add to these. */
    struct tt_counter *slot_count, *used_count;
    int32_t reported_used; /* its share of *used_count */
    int32_t input_count;
    struct tt_engine_model *model; /* has the bytes, and copies them to its device; NULL: the ring
                                      has them */
    bool never_holds;              /* requests without slots need none */
    char **bytes;                  /* [input_count] */
    size_t *row_bytes;             /* [input_count] */
    struct tt_list held; /* inferences that were submitted and wait for slots, oldest first */
    struct tt_list came; /* those that got slots and were not reported to the scheduler yet */
};

/* True if the inputs can be in slots: the size of a row is fixed and known. */
bool tt_input_ring_fits(const struct tt_signature *signature);
/* `slots`: how many; 0: four times the model's maximum batch, at least 64, at most a GiB. The
 * inputs must fit. Errors: INVALID (more than 8 GiB), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_input_ring_new(const struct tt_signature *signature, int32_t slots,
                                            struct tt_input_ring **out_ring, struct tt_error *why);
/* The same in memory of the model, whose engine takes inputs; the model outlives the ring's use.
 * Errors: those of struct tt_engine_input_ops, too. */
TT_MUST_CHECK enum tt_err tt_input_ring_new_on_device(struct tt_engine_model *model,
                                                      const struct tt_signature *signature,
                                                      int32_t slots, bool never_holds,
                                                      struct tt_input_ring **out_ring,
                                                      struct tt_error *why);
/* No inference has slots or waits. NULL-safe. */
void tt_input_ring_free(struct tt_input_ring *take_self);

/* Counts its slots in *slot_count until it is freed, and those that are not free in *used_count,
 * including those lost at the end. Both are borrowed. Once. */
void tt_input_ring_show(struct tt_input_ring *self, struct tt_counter *slot_count,
                        struct tt_counter *used_count);

/* ---- the ports' threads ---- */

/* Takes slots for inference->rows (at most the ring's capacity). Its `slot` is the first one, or
 * -1: it must wait, and its inputs go to memory of its own. */
void tt_input_ring_take(struct tt_input_ring *self, struct tt_inference *inference);
/* Where the rows of the input are, of an inference that has slots. */
void *tt_input_ring_at(const struct tt_input_ring *self, const struct tt_inference *inference,
                       int32_t input);
/* The inference is about to be submitted, its inputs written: copies them to the device, if there
 * is one, or queues if it has no slots and needs them. True: an inference (perhaps this one) got
 * slots after waiting. */
bool tt_input_ring_send(struct tt_input_ring *self, struct tt_inference *inference);
/* The inputs are not read any more: gives the slots back, if it has any, and moves waiting requests
 * to them. True: one got slots, and the caller must wake the scheduler. */
bool tt_input_ring_give(struct tt_input_ring *self, struct tt_inference *inference);

/* ---- the scheduler ---- */

/* A submitted inference arrives. True: its input is in its slots, or needs none. */
bool tt_input_ring_arrived(struct tt_input_ring *self, struct tt_inference *inference);
/* The next inference that got its slots after waiting; NULL: no more. It may have no request yet.
 */
struct tt_inference *tt_input_ring_came(struct tt_input_ring *self);
/* When the copy of its inputs to the device was under way; both 0: there was none. Its task has
 * come back. */
struct tt_engine_copies tt_input_ring_copies(const struct tt_input_ring *self,
                                             const struct tt_inference *inference);
/* The inference ends, whether it waits here or not. */
void tt_input_ring_forget(struct tt_input_ring *self, struct tt_inference *inference);
#endif
