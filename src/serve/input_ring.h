/* The inputs of one model in its engine's memory, for policies that wait for them (E1).
 *
 * A ring of slots (core/slot_ring.h) that all ports of the server share, and per input of the model
 * an array indexed by slot. Requests that came one after the other, on whatever connections, lie
 * one after the other, so that any range of them is a batch which the engine binds where it lies.
 *
 * Life of an input: when its request begins it is given the next slots and is written there, alone,
 * by the connection's thread, while executors compute what came before; when it is written its
 * request is submitted and ready: this machine's processors compute in the memory that the sockets
 * are read to, so that no copy is under way that somebody would have to wait for. The slots come
 * back when the request has left, in any order. No range crosses the end of the ring; the slots
 * left over there are lost for one lap (at most the rows of the request that did not fit, less
 * one).
 *
 * Where no slots are free the input is written to memory of the request's own, and the request, in
 * its domain but not ready, waits its turn: whoever gives slots back moves those that have waited
 * longest, in the order in which they were submitted, and who comes meanwhile lines up behind them.
 * A full ring thus costs one copy of those it held back, and loses nobody; what may wait there is
 * bounded by the server's limits of requests and bytes (serve/limits.h), beyond which it says BUSY.
 *
 * All of it under one lock, of the ports' threads and the scheduler; the move is a memcpy under it.
 * It tells nobody: who gives slots back is told whether the scheduler should look. */
#ifndef TT_SERVE_INPUT_RING_H
#define TT_SERVE_INPUT_RING_H

#include "base/counter.h"
#include "base/list.h"
#include "base/lock.h"
#include "core/slot_ring.h"
#include "core/tensor.h"

struct tt_inference;

struct tt_input_ring {
    struct tt_list_node in_domain; /* the domain's */
    struct tt_lock lock;           /* guards what follows, but not the bytes of slots given out */
    struct tt_slot_ring slots;
    /* NULL: nobody wants to know. A model that is loaded anew has two rings for a while, which both
     * add to these. */
    struct tt_counter *slot_count, *used_count;
    int32_t reported_used; /* of that it knows */
    int32_t input_count;
    char **bytes;        /* [input_count] */
    size_t *row_bytes;   /* [input_count] */
    struct tt_list held; /* inferences that were submitted and wait for slots, oldest first */
    struct tt_list came; /* those that were moved to slots since, and the scheduler has not heard */
};

/* May the inputs lie in slots: is each row of them of one size, known beforehand? */
bool tt_input_ring_fits(const struct tt_signature *signature);
/* `slots` > 0 slots for inputs that fit; 0: four times the model's maximum batch, at least 64, as
 * far as a GiB goes. Errors: INVALID (more than 8 GiB), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_input_ring_new(const struct tt_signature *signature, int32_t slots,
                                            struct tt_input_ring **out_ring, struct tt_error *why);
/* No inference has slots or waits. NULL-safe. */
void tt_input_ring_free(struct tt_input_ring *take_self);

/* Until it is freed its slots are counted in the one counter (borrowed), and in the other those
 * that are not free, the ones lost at the end included. Once. */
void tt_input_ring_show(struct tt_input_ring *self, struct tt_counter *slot_count,
                        struct tt_counter *used_count);

/* ---- the ports' threads ---- */

/* Slots for inference->rows (<= the ring's capacity); its `slot` is the first, -1 where it has to
 * wait: its inputs then go to memory of its own. */
void tt_input_ring_take(struct tt_input_ring *self, struct tt_inference *inference);
/* Where the rows of the input lie, of an inference that has slots. */
void *tt_input_ring_at(const struct tt_input_ring *self, const struct tt_inference *inference,
                       int32_t input);
/* The inference without slots is about to be submitted, its inputs written: it lines up. Whether
 * somebody (it, perhaps) came to slots by that. */
bool tt_input_ring_wait(struct tt_input_ring *self, struct tt_inference *inference);
/* Nobody reads the inputs any more: gives the slots back, if it has any, and moves those that wait
 * for them. Whether there were some: then the scheduler must have a turn. */
bool tt_input_ring_give(struct tt_input_ring *self, struct tt_inference *inference);

/* ---- the scheduler ---- */

/* A submitted inference is let in: is its input in its slots? */
bool tt_input_ring_arrived(struct tt_input_ring *self, struct tt_inference *inference);
/* The next one that came to its slots since, after having waited; NULL: no more. It may have no
 * request (yet). */
struct tt_inference *tt_input_ring_came(struct tt_input_ring *self);
/* The inference ends, whether it waits here or not. */
void tt_input_ring_forget(struct tt_input_ring *self, struct tt_inference *inference);
#endif
