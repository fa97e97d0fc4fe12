/* D8: early exits of a task on streams: which of its members leave the model or skip steps behind
 * its last step.
 *
 * The exits' tests run on the device behind the step, for all rows (stream_steps.c). What decides,
 * and the answers of those that may leave, are read back behind them: small copies, on the stream
 * that carries outputs. When the task is back the host knows them: a member that leaves has its
 * result, and its slots are free; one that skips steps says so in `next_step`, and its next task
 * gives it what these would have made (stream_states.h). So a task ends at each step that has an
 * exit, and no other takes up its members before it is back. Implemented in stream_exits.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_EXITS_H
#define TT_ENGINE_STREAMS_STREAM_EXITS_H

#include "engine/streams/stream_place.h"

/* True if some members of the task may leave or skip steps at its end. */
bool tt_stream_exits_any(const struct tt_stream_place *place);
/* True if a member may do so before the end of the task: no caller may ask for this. */
bool tt_stream_exits_within(const struct tt_stream_place *place);
/* Behind the kernel. Errors: those of copies. */
TT_MUST_CHECK enum tt_err tt_stream_exits_read_back(const struct tt_stream_place *place,
                                                    struct tt_async_stream *stream,
                                                    struct tt_error *why);
/* The task is done, and what was read back is there. A member without memory for its result gets an
 * error. */
void tt_stream_exits_take(const struct tt_stream_place *place);

#endif
