/* The batch table (D2) and the buffer pairs (D3) of one model that runs as a pipeline of stages.
 *
 * A *batch* is a row of the table: its number, its size, its creation time, and how many of its
 * rows have completed each stage. A *part* is a range of a batch: `rows` rows, beginning at
 * `start`. Parts wait in the queues between the stages, and executors run them. Most batches have
 * one part. Three operations make parts:
 * - new: creates a batch with one part, in the queue of the first stage.
 * - stretch: holds a part that has ended a stage. Newcomers join its batch as a second part, which
 *   begins at the first stage. When that part ends the stage at which the other is held, the two
 *   become one part and continue.
 * - split: divides a part that has ended a stage into two, the elder and the younger. Splits can be
 *   repeated at one boundary. The younger waits until the elder has left the model.
 * Only the latest batch may be stretched, and only if it is not split and will not be.
 *
 * Life of a part: QUEUED -> RUNNING -> ENDED -> (QUEUED at the next stage | HELD | free). Queues
 * are first in, first out: a part that waits for its elder blocks the parts behind it.
 *
 * Buffer pairs: `pairs` buffers lie between two stages. A stage can start if one of the buffers
 * behind it is free. It occupies that buffer until two things have happened: the next stage has
 * read it, and the next stage is active again. A stage is active again when it has a free buffer
 * behind itself; the last stage always is. With one pair the pipeline runs one batch at a time;
 * with two or more, batches follow each other. A part carries the number of its input buffers.
 *
 * Each buffer is in a state of core/stage_states.h, and each move is one of those, asserted and
 * reported to `moved`. Buffers of one boundary are interchangeable, so the table counts them.
 *   in use:  inwriting    the stage before runs, or was submitted ahead
 *            available    it holds a result that the next stage has not begun to read
 *            inreading    the next stage runs; of a split batch: its last piece
 *            invalid      owed back: read, and the next stage is not active again
 *   free:    available    without a result
 *
 * The table links requests by `request->link`, which the caller must not use meanwhile. It makes no
 * decisions. It allocates in _init only. */
#ifndef TT_POLICY_BATCH_TABLE_H
#define TT_POLICY_BATCH_TABLE_H

#include "core/request.h"
#include "core/stage_states.h"

#include <stdbool.h>

enum { TT_BATCH_STAGES = 64 };

enum tt_part_state {
    TT_PART_FREE,
    TT_PART_QUEUED,
    TT_PART_RUNNING,
    TT_PART_ENDED, /* a stage; the next operation is not chosen yet */
    TT_PART_HELD,  /* waits until the newcomers have caught up */
};

struct tt_part {
    struct tt_list requests;
    int32_t batch; /* index of the batch in `batches` */
    int32_t start, rows, count;
    int32_t stage; /* QUEUED, RUNNING: the stage to run; ENDED, HELD: the stage that has ended */
    int32_t pairs; /* number of buffers that hold its input */
    int32_t elder; /* the part that must leave the model before this one runs; -1: none */
    int32_t younger;
    int32_t next;     /* the part behind it in its queue or list; -1: none */
    bool is_followed; /* RUNNING: the next stage has been submitted for it, too */
    enum tt_part_state state;
};

struct tt_batch_row {
    int32_t id; /* number of the batch, counted from 0 per model; -1: the row is free */
    int32_t rows;
    int64_t created_at;
    bool splits;  /* split already, or will be: must not be stretched */
    int32_t live; /* number of its parts */
    int32_t held; /* the part that waits for newcomers; -1: none */
    int32_t done[TT_BATCH_STAGES];
};

struct tt_part_queue {
    int32_t first, last; /* parts; -1: empty */
};

struct tt_batch_table {
    int32_t stage_count, pair_count;
    int32_t next_id;
    int32_t active_rows, active_count; /* rows and requests in all batches */
    int32_t capacity;                  /* maximum number of requests, and so of parts and batches */
    struct tt_part *parts;
    struct tt_batch_row *batches;
    int32_t free_part;
    struct tt_part_queue ended;
    struct tt_part_queue queues[TT_BATCH_STAGES];
    int32_t buffers[TT_BATCH_STAGES]; /* number in use behind each stage */
    int32_t owed[TT_BATCH_STAGES];    /* of these: read, but the next stage is not active yet */
    int32_t written[TT_BATCH_STAGES], read[TT_BATCH_STAGES]; /* of these: now */
    /* Called for each move of `count` buffers behind `stage`. NULL: not wanted. */
    void (*moved)(void *context, int32_t stage, int32_t count, enum tt_stage_buffer_state from,
                  enum tt_stage_buffer_state to);
    void *moved_context;
};

/* `capacity`: the maximum number of requests at a time. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_batch_table_init(struct tt_batch_table *self, int32_t capacity);
void tt_batch_table_fini(struct tt_batch_table *self);
/* Prepares an empty table for a model with 1 .. TT_BATCH_STAGES stages and `pairs` >= 1. */
void tt_batch_table_start(struct tt_batch_table *self, int32_t stages, int32_t pairs);

/* True if the buffers allow the stage to start. */
static inline bool tt_batch_table_has_buffer(const struct tt_batch_table *self, int32_t stage) {
    return stage == self->stage_count - 1 || self->buffers[stage] < self->pair_count;
}

/* The number of requests that can still be added. */
static inline int32_t tt_batch_table_room(const struct tt_batch_table *self) {
    return self->capacity - self->active_count;
}
/* new: returns an empty part in the first queue. The caller must fill it at once with
 * tt_batch_table_add. Needs room for a request. */
int32_t tt_batch_table_new(struct tt_batch_table *self, int64_t now);
/* stretch: holds the ended part. Returns an empty part of the same batch in the first queue, which
 * the caller must fill at once. Needs room for a request. */
int32_t tt_batch_table_stretch(struct tt_batch_table *self, int32_t part);
/* True if the part is all of the latest batch, is not split, and has not ended the last stage. For
 * a running part: whether that will hold when its stage ends. */
bool tt_batch_table_may_stretch(const struct tt_batch_table *self, int32_t part);
/* Appends a request, which must be in no list, to a part that waits in the first queue. */
void tt_batch_table_add(struct tt_batch_table *self, int32_t part, struct tt_request *request);
/* split: the ended part keeps its first requests, until these have `rows` rows or more. Returns a
 * younger part, also ended, with the others; -1: no request is left for it. */
int32_t tt_batch_table_split(struct tt_batch_table *self, int32_t part, int32_t rows);
/* Moves an ended part to the queue of the next stage. */
void tt_batch_table_push(struct tt_batch_table *self, int32_t part);

/* The part that the stage can run next. -1: the queue is empty, its front waits for its elder, or
 * no buffer is free. */
int32_t tt_batch_table_front(const struct tt_batch_table *self, int32_t stage);
/* Moves the front part from its queue to RUNNING. The caller takes its requests out of its list. */
void tt_batch_table_run(struct tt_batch_table *self, int32_t part);
/* D4: the next stage of a running part is submitted before the part has ended this one. Occupies
 * the buffer behind that stage, which must be free. _advance: the part has ended its stage and now
 * runs the next one. */
void tt_batch_table_follow(struct tt_batch_table *self, int32_t part);
void tt_batch_table_advance(struct tt_batch_table *self, int32_t part);
/* The part has ended its stage. The caller then calls _keep for each request that goes to the next
 * stage, and _kept after the last. _kept frees an empty part, and merges a part that has caught up
 * with the held one. */
void tt_batch_table_ended(struct tt_batch_table *self, int32_t part);
void tt_batch_table_keep(struct tt_batch_table *self, int32_t part, struct tt_request *request);
void tt_batch_table_kept(struct tt_batch_table *self, int32_t part);
/* Instead of _keep (D8, layer skip): the request continues behind `stage`, in a batch of its own.
 */
void tt_batch_table_skip(struct tt_batch_table *self, int32_t part, int32_t stage,
                         struct tt_request *request);
/* The oldest part that has ended a stage and has no next operation yet; -1: none. The caller must
 * hold, split or push it. */
int32_t tt_batch_table_take_ended(struct tt_batch_table *self);
/* Removes a request from a part that does not run. Frees the part if it is then empty. */
void tt_batch_table_remove(struct tt_batch_table *self, int32_t part, struct tt_request *request);

void tt_batch_table_check(const struct tt_batch_table *self);

#endif
