/* What a task's steps read and leave between the steps of its model: where each tensor is while the
 * task runs, and what is copied between the slots of its rows and its arena.
 *
 * If the rows have adjacent slots, steps read and write these in place. Else what the steps read is
 * gathered into the arena before them, and what later steps read is scattered behind them. Runs of
 * adjacent slots are one copy each. Rows that skipped steps first get what these would have made
 * (D8). Called by a kernel, or by the submitting thread on devices that
 * run no C functions. Implemented in stream_states.c. */
#ifndef TT_ENGINE_STREAMS_STREAM_STATES_H
#define TT_ENGINE_STREAMS_STREAM_STATES_H

#include "engine/streams/stream_place.h"

/* Copies device memory. */
typedef enum tt_err tt_stream_move_fn(void *context, uint64_t to, uint64_t from, size_t bytes,
                                      struct tt_error *why);

/* The address on the device of the first row of a tensor that the task's steps read or make. */
uint64_t tt_stream_states_tensor(const struct tt_stream_place *place, int32_t tensor);
/* Before the steps. Errors: those of `move`. */
TT_MUST_CHECK enum tt_err tt_stream_states_gather(const struct tt_stream_place *place,
                                                  tt_stream_move_fn *move, void *context,
                                                  struct tt_error *why);
/* Behind them, when `last_done` is not the model's last one. Errors: those of `move`. */
TT_MUST_CHECK enum tt_err tt_stream_states_scatter(const struct tt_stream_place *place,
                                                   int32_t last_done, tt_stream_move_fn *move,
                                                   void *context, struct tt_error *why);
/* Lists the slots of the members' rows, of those that have a state; returns how many there are. */
int32_t tt_stream_states_list(struct tt_stream_place *place);
/* The same slots as memory that a kernel touches, for the order checker; returns how many ranges.
 */
int32_t tt_stream_states_ranges(const struct tt_stream_place *place, int32_t rows,
                                struct tt_async_range *ranges);

#endif
