/* E1: the ring of a model's inputs on a device: `inputs` of engine/engine.h for a stream engine.
 *
 * Each input of the model has an array of slots in pinned memory and one on the device. A request's
 * rows are written to slots on the host; _send copies them on the stream of arrivals, which does
 * nothing else, so copies end in the order in which they were sent. Each has an event behind it,
 * that of its last slot.
 *
 * Life of a copy: sent, under the lock; made by the device; the stream notes its end. Slots are
 * written again only when their last copy has ended. If the device fails, copies that were sent
 * never end.
 *
 * The caller decides which slots a request has, and when they are free. All models of an engine
 * share the stream and the lock. Implemented in stream_inputs.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_INPUTS_H
#define TT_ENGINE_STREAMS_STREAM_INPUTS_H

#include "base/threads/lock.h"
#include "device/async_device.h"
#include "engine/engine.h"

/* Of an engine. */
struct tt_stream_arrivals {
    struct tt_async_device *device; /* borrowed */
    bool is_used;                   /* else inputs are copied with their batches */
    struct tt_async_stream *stream; /* NULL: it was stopped */
    int32_t queue_depth;            /* operations that the stream holds; 0: enough */
    struct tt_lock lock;            /* guards the stream, and which copies of all rings were sent */
    /* Guards what follows, and which copies have begun and ended. Taken inside of the other one,
     * and by calls on the stream, so never held during a call of the device. */
    struct tt_lock notes;
    int32_t under_way; /* operations in the stream */
};

/* Closes the stream: no copy is under way then. Copies have ended, or the device has failed. */
void tt_stream_arrivals_stop(struct tt_stream_arrivals *self);

struct tt_stream_inputs;

/* `row_bytes`: of each of the `count` inputs. Errors: NO_MEMORY, those of events. */
TT_MUST_CHECK enum tt_err tt_stream_inputs_new(struct tt_stream_arrivals *arrivals,
                                               const size_t *row_bytes, int32_t count,
                                               int32_t slots, struct tt_stream_inputs **out_inputs,
                                               struct tt_error *why);
/* Waits until all copies have ended; if the device has failed, stops the arrivals. NULL-safe. */
void tt_stream_inputs_free(struct tt_stream_inputs *take_self);
/* The slots of input `input` on the host. */
char *tt_stream_inputs_bytes(const struct tt_stream_inputs *self, int32_t input);
/* The same on the device: the address of a slot. */
uint64_t tt_stream_inputs_address(const struct tt_stream_inputs *self, int32_t input, int32_t slot);
/* See struct tt_engine_input_ops. */
void tt_stream_inputs_send(struct tt_stream_inputs *self, int32_t first_slot, int32_t rows);
void tt_stream_inputs_settle(struct tt_stream_inputs *self, int32_t first_slot, int32_t rows);
struct tt_engine_copies tt_stream_inputs_copies(struct tt_stream_inputs *self, int32_t first_slot);

/* The first slot of a member, whose copy was sent; -1: its inputs are elsewhere, or the copy found
 * no place. Later copies have greater numbers. */
int32_t tt_stream_inputs_find(struct tt_stream_inputs *self, const struct tt_engine_member *member,
                              uint64_t *out_number);
/* The stream waits for its copy. Errors: those of tt_async_wait. */
TT_MUST_CHECK enum tt_err tt_stream_inputs_wait(struct tt_stream_inputs *self, int32_t first_slot,
                                                struct tt_async_stream *stream,
                                                struct tt_error *why);

#endif
