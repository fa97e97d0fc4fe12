/* What a watchdog sees of a stream engine, and what follows when a run is given up (struct
 * tt_engine_watch_ops).
 *
 * A stream cannot be stopped or replaced: giving up makes the device fail, with a reason that names
 * the stream. A run that is in a C function is lost; it may return later. Other runs come back with
 * the device's failure. Threads as in engine/engine.h. Implemented in stream_watch.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_WATCH_H
#define TT_ENGINE_STREAMS_STREAM_WATCH_H

#include "engine/streams/stream_place.h"

/* The executor's run; false: none. `set` NULL: the device has failed. */
bool tt_stream_watch_running(struct tt_async_executors *set, int32_t executor,
                             struct tt_engine_running *out);
void tt_stream_watch_cut(struct tt_async_executors *set, const struct tt_engine_running *running);
/* True: the run is lost. Else it has come back, or does so with the device's failure. */
bool tt_stream_watch_give_up(struct tt_async_executors *set,
                             const struct tt_engine_running *running);

#endif
