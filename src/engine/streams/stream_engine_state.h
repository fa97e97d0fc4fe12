/* What an engine on streams (engine/streams/stream_engine.h) is made of. For its own files:
 * stream_engine.c runs tasks, stream_load.c loads models. */
#ifndef TT_ENGINE_STREAMS_STREAM_ENGINE_STATE_H
#define TT_ENGINE_STREAMS_STREAM_ENGINE_STATE_H

#include "engine/streams/stream_engine.h"
#include "engine/streams/stream_inputs.h"
#include "engine/streams/stream_place.h"

struct tt_stream_engine {
    struct tt_engine engine; /* first */
    struct tt_async_device *device;
    struct tt_async_executors *set;     /* NULL: the device has failed */
    struct tt_async_executors *ended;   /* what was `set` then */
    struct tt_async_stream *copies_in;  /* TT_STREAM_EACH */
    struct tt_stream_arrivals arrivals; /* TT_STREAM_EACH; E1 */
    struct tt_lock order_lock; /* with the order checker: of what the host submits, any thread */
    enum tt_stream_transfer transfer;
    int32_t depth, max_rows;
    int32_t queue_depth;            /* of a stream; 0: enough */
    bool has_room;                  /* for max_rows in every place, and for no more */
    struct tt_stream_place *places; /* [executor_count * depth] */
    uint64_t *submitted;            /* [executor_count] */
    void **native_streams;          /* [executor_count]; NULL where kernels are C functions */
};

static inline int32_t tt_stream_engine_places(const struct tt_stream_engine *self) {
    return self->engine.executor_count * self->depth;
}
/* Room in every place for batches of `rows` rows. False: there is no memory for it. */
bool tt_stream_engine_make_room(struct tt_stream_engine *self, int32_t rows);

#endif
