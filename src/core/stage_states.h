/* D3: the states of stage executors and of the buffers between them, as two state machines.
 *
 * Stages 0 .. n - 1 have one executor each. There are `pairs` buffer pairs. Pair j of stage s is
 * buffer (s, j), its input, and buffer (s + 1, j), its output. So buffer (s, j) is the output of
 * stage s - 1 and the input of stage s; buffers (0, j) and (n, j) are the ends of the pipeline.
 *
 * Legal moves of a buffer:
 *   available -> inreading   its stage starts to read it
 *   available -> inwriting   the stage before starts to write it
 *   invalid -> inwriting     the same
 *   inwriting -> available   the stage before has ended
 *   inreading -> invalid     its stage has ended
 *   invalid -> available     handed back, see below
 * Legal moves of an executor:
 *   active -> checking       it has pulled a batch that lies in a pair
 *   checking -> working      the pair is legitimate
 *   checking -> inactive     the pair is not; the batch goes back to the front of its queue
 *   working -> active        it has ended a batch and has a legitimate pair
 *   working -> inactive      it has ended a batch and has none
 *   inactive -> active       a pair became legitimate
 * A pair is legitimate if its input is available, its output is available or invalid, and the
 * output holds no result that the next stage has not begun to read. The paper states only the first
 * two. They would let a stage overwrite a result while the next stage is busy with another pair.
 *
 * The last executor always becomes active. When executor s has run pair j and becomes active, it
 * hands pair j back: buffer (s - 1, j), if invalid, becomes available. The executor of a pipeline
 * of one stage hands its own input back. With one pair the pipeline is serial; with more, stages
 * overlap.
 *
 * Life of a batch: _pull and _check at each stage, _complete when the stage has ended. Every move
 * is asserted and reported to `moved`. This module keeps no queues, knows no devices, and allocates
 * nothing. Implemented in stage_states.c. */
#ifndef TT_CORE_STAGE_STATES_H
#define TT_CORE_STAGE_STATES_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_STAGE_STATES_MAX_STAGES = 64, TT_STAGE_STATES_MAX_PAIRS = 8 };

enum tt_stage_executor_state {
    TT_STAGE_EXECUTOR_ACTIVE,
    TT_STAGE_EXECUTOR_CHECKING,
    TT_STAGE_EXECUTOR_WORKING,
    TT_STAGE_EXECUTOR_INACTIVE,
    TT_STAGE_EXECUTOR_STATES,
};

enum tt_stage_buffer_state {
    TT_STAGE_BUFFER_AVAILABLE,
    TT_STAGE_BUFFER_INVALID,
    TT_STAGE_BUFFER_INREADING,
    TT_STAGE_BUFFER_INWRITING,
    TT_STAGE_BUFFER_STATES,
};

/* A move, for traces. */
struct tt_stage_move {
    int32_t stage; /* the executor's, or the one whose input the buffer is */
    int32_t pair;  /* -1: an executor moved */
    int32_t from, to;
};

/* A move in a policy whose executors serve several stages, or several a stage, and whose buffers
 * between two stages are interchangeable (policy/diversity.h). For observers. */
struct tt_stage_event {
    int32_t model, stage;
    int32_t executor; /* the one that moved; -1: buffers behind the stage */
    int32_t count;    /* of buffers; 1 for an executor */
    int32_t from, to;
};

struct tt_stage_states {
    int32_t stages, pairs;
    enum tt_stage_executor_state executors[TT_STAGE_STATES_MAX_STAGES];
    int32_t pair_of[TT_STAGE_STATES_MAX_STAGES]; /* CHECKING, WORKING: the pair; else -1 */
    uint32_t unread[TT_STAGE_STATES_MAX_STAGES]; /* bit j: buffer (s, j) holds such a result */
    uint32_t owed[TT_STAGE_STATES_MAX_STAGES];   /* bit j: ran pair j and was not active since */
    enum tt_stage_buffer_state buffers[TT_STAGE_STATES_MAX_STAGES + 1][TT_STAGE_STATES_MAX_PAIRS];
    void (*moved)(void *context, const struct tt_stage_move *move); /* NULL: not wanted */
    void *moved_context;
};

/* The tables of legal moves. */
bool tt_stage_executor_may(enum tt_stage_executor_state from, enum tt_stage_executor_state to);
bool tt_stage_buffer_may(enum tt_stage_buffer_state from, enum tt_stage_buffer_state to);
/* Names as in the comment above; static storage. */
const char *tt_stage_executor_state_name(enum tt_stage_executor_state state);
const char *tt_stage_buffer_state_name(enum tt_stage_buffer_state state);

/* All executors active, all buffers available, `moved` NULL. 1 .. MAX_STAGES and 1 .. MAX_PAIRS. */
void tt_stage_states_init(struct tt_stage_states *self, int32_t stages, int32_t pairs);
bool tt_stage_states_legitimate(const struct tt_stage_states *self, int32_t stage, int32_t pair);
/* The active executor has pulled a batch whose input lies in `pair`. */
void tt_stage_states_pull(struct tt_stage_states *self, int32_t stage, int32_t pair);
/* True: the executor works. False: the pair is not legitimate, and the batch stays at the front of
 * its queue until a _complete; the executor is inactive, or active again because of another pair.
 */
bool tt_stage_states_check(struct tt_stage_states *self, int32_t stage);
/* The working executor has ended its batch, whose result lies in the pair's output. */
void tt_stage_states_complete(struct tt_stage_states *self, int32_t stage);
/* Asserts the invariants: an executor that works reads and writes its pair, no other buffer is read
 * or written, and an executor is inactive only without a legitimate pair. */
void tt_stage_states_verify(const struct tt_stage_states *self);

#endif
