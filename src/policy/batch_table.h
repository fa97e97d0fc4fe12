/* The batch table (D2) and the buffer pairs (D3) of one model that runs as a pipeline of stages.
 *
 * A *batch* is a row of the table: its number, its size, when it was made, and how many of its rows
 * have completed each stage. What stands in the queues between the stages and what the executors
 * run are *parts* of batches: `rows` rows from `start` on. Most batches have one part. Three
 * operations change that.
 *
 * new: a batch with one part in the queue of the first stage.
 *
 * stretch: the batch's part has ended a stage and is not forwarded: it is held, and newcomers join
 * the batch as a second part that begins at the first stage; when that part ends the stage at which
 * the other is held, the two become one and go on.
 *
 * split: a part that ended a stage becomes two (again and again at one boundary), which run one
 * after the other: the younger waits until the elder has left the model. Only the latest batch is
 * stretched, never one that splits or was split.
 *
 * Life of a part: QUEUED -> RUNNING -> ENDED -> (QUEUED at the next stage | HELD | gone). A queue
 * is first in, first out: a part that waits for its elder holds up those behind it.
 *
 * Buffer pairs. Between two stages lie `pairs` buffers. A stage can start when one of those behind
 * it is free; it holds that until the next stage has read it *and* is active again, that is, has a
 * free buffer behind itself (the last stage always is). So one pair makes the pipeline serial, and
 * two or more let batches follow each other. The count of a part's input buffers travels with it.
 *
 * It holds requests by their `link` and decides nothing. All memory is taken at init. */
#ifndef TT_POLICY_BATCH_TABLE_H
#define TT_POLICY_BATCH_TABLE_H

#include "core/request.h"

#include <stdbool.h>

enum { TT_BATCH_STAGES = 64 };

enum tt_part_state {
    TT_PART_FREE,
    TT_PART_QUEUED,
    TT_PART_RUNNING,
    TT_PART_ENDED, /* a stage; what comes next is not decided yet */
    TT_PART_HELD,  /* until the newcomers have caught up */
};

struct tt_part {
    struct tt_list requests;
    int32_t batch; /* index of its row in the table */
    int32_t start, rows, count;
    int32_t stage; /* QUEUED, RUNNING: at which; ENDED, HELD: which it has ended */
    int32_t pairs; /* buffers that it will be read from */
    int32_t elder; /* it waits for this part to leave; -1 */
    int32_t younger;
    int32_t next; /* in the queue or list it is in; -1 */
    enum tt_part_state state;
};

struct tt_batch_row {
    int32_t id; /* counts the model's batches from 0; -1: the row is free */
    int32_t rows;
    int64_t created_at;
    bool splits;  /* will be, or was, split: not to be stretched */
    int32_t live; /* parts */
    int32_t held; /* the part that waits for newcomers; -1 */
    int32_t done[TT_BATCH_STAGES];
};

struct tt_part_queue {
    int32_t first, last; /* -1 */
};

struct tt_batch_table {
    int32_t stage_count, pair_count;
    int32_t next_id;
    int32_t active_rows, active_count; /* rows and requests in all batches */
    int32_t capacity;                  /* of requests, and therefore of parts and batches */
    struct tt_part *parts;
    struct tt_batch_row *batches;
    int32_t free_part;
    struct tt_part_queue ended;
    struct tt_part_queue queues[TT_BATCH_STAGES];
    int32_t buffers[TT_BATCH_STAGES]; /* in use behind each stage */
    int32_t owed[TT_BATCH_STAGES];    /* of those: read, but the next stage is not active yet */
};

/* Room for so many requests at once. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_batch_table_init(struct tt_batch_table *self, int32_t capacity);
void tt_batch_table_fini(struct tt_batch_table *self);
/* A model with 1 .. TT_BATCH_STAGES stages and >= 1 buffer pairs; the table is empty. */
void tt_batch_table_start(struct tt_batch_table *self, int32_t stages, int32_t pairs);

/* May the stage start, as far as buffers go? */
static inline bool tt_batch_table_has_buffer(const struct tt_batch_table *self, int32_t stage) {
    return stage == self->stage_count - 1 || self->buffers[stage] < self->pair_count;
}

/* How many requests may still be added. */
static inline int32_t tt_batch_table_room(const struct tt_batch_table *self) {
    return self->capacity - self->active_count;
}
/* new (with room): an empty part in the first queue, to be filled with tt_batch_table_add at once.
 */
int32_t tt_batch_table_new(struct tt_batch_table *self, int64_t now);
/* stretch (with room): the ended part is held; an empty part of the same batch stands in the first
 * queue, to be filled at once. */
int32_t tt_batch_table_stretch(struct tt_batch_table *self, int32_t part);
/* Is it the latest batch, whole, not split and not the last stage's? */
bool tt_batch_table_may_stretch(const struct tt_batch_table *self, int32_t part);
/* Puts a request (in no list) at the end of a part that waits in the first queue. */
void tt_batch_table_add(struct tt_batch_table *self, int32_t part, struct tt_request *request);
/* split: the ended part keeps its first requests, until they have `rows` rows or more; the others
 * become a younger part, ended as well, which is returned; -1: none is left for it. */
int32_t tt_batch_table_split(struct tt_batch_table *self, int32_t part, int32_t rows);
/* Forwards an ended part to the next stage's queue. */
void tt_batch_table_push(struct tt_batch_table *self, int32_t part);

/* The part that the stage would run next; -1: none, it waits for its elder, or buffers lack. */
int32_t tt_batch_table_front(const struct tt_batch_table *self, int32_t stage);
/* That part leaves the queue and runs. The caller takes its requests out of the list. */
void tt_batch_table_run(struct tt_batch_table *self, int32_t part);
/* It has ended its stage; then `keep` for each request that stays and goes to the next stage, and
 * `kept` when that is all: an empty part goes, one that has caught up joins the one that is held.
 */
void tt_batch_table_ended(struct tt_batch_table *self, int32_t part);
void tt_batch_table_keep(struct tt_batch_table *self, int32_t part, struct tt_request *request);
void tt_batch_table_kept(struct tt_batch_table *self, int32_t part);
/* Instead of `keep`: the request does not go to the next stage but to the one behind `stage` (D8,
 * layer skip), by itself. */
void tt_batch_table_skip(struct tt_batch_table *self, int32_t part, int32_t stage,
                         struct tt_request *request);
/* The parts that have ended a stage and about which nothing is decided, oldest first; -1. Each is
 * to be held, or pushed. */
int32_t tt_batch_table_take_ended(struct tt_batch_table *self);
/* A request of a part that does not run is taken out; an empty part goes. */
void tt_batch_table_remove(struct tt_batch_table *self, int32_t part, struct tt_request *request);

void tt_batch_table_check(const struct tt_batch_table *self);

#endif
