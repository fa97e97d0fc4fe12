/* Which row of memory each request's cache has (engine/cell_set.h: states in place).
 *
 * A batch is one run where the rows of its members are adjacent. So a task begins where as many
 * adjacent rows as it has members have most of them already. New requests take the open rows there,
 * then the members that are elsewhere move into those that are left: one copy, once, for the
 * request that leaves a hole. A row between them that another request has stays its own; the batch
 * is then run in as many pieces as there are ranges. Types of cells would make such pieces of each
 * other, so each has an area of its own, and a request moves where it goes on to the next type.
 *
 * A request has one row from its first task with a cache until it ends or moves. Tasks in flight
 * may still use the row that it left: that is given back when they are over, but a later task on
 * the same executor may take it before, since tasks of one executor run in order.
 *
 * A request reserves a row when it arrives, so that a task never runs out of them. The reservation
 * goes with the row that is left; a request that moves needs another one, or stays. One thread owns
 * the object. Implemented in cell_caches.c. */
#ifndef TT_SERVE_CELL_CACHES_H
#define TT_SERVE_CELL_CACHES_H

#include "engine/cell_slots.h"

struct tt_cell_cache_use {
    bool has_owner;   /* a request has the row */
    int32_t leaving;  /* former owners, of which tasks in flight may use it */
    int32_t executor; /* of the tasks that use it */
};

struct tt_cell_caches {
    struct tt_cell_slots rows;      /* free: without an owner, and none is leaving */
    struct tt_cell_cache_use *uses; /* [rows.capacity] */
};

/* All zero: of a model without caches. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cell_caches_init(struct tt_cell_caches *self, int32_t capacity);
void tt_cell_caches_fini(struct tt_cell_caches *self); /* all rows must have been given back */
static inline bool tt_cell_caches_exist(const struct tt_cell_caches *self) {
    return self->rows.capacity > 0;
}
/* The owner leaves its row, and its reservation with it. */
void tt_cell_caches_leave(struct tt_cell_caches *self, int32_t row);
/* The tasks that used the row when it was left are over. */
void tt_cell_caches_left(struct tt_cell_caches *self, int32_t row);
/* The owner has not used its row: gives it back, and keeps the reservation. */
void tt_cell_caches_return(struct tt_cell_caches *self, int32_t row);

struct tt_cell_cache_member {
    int32_t item; /* of the task */
    int32_t from; /* the row that it has; -1: none yet */
    int32_t row;  /* the row that it gets */
};

struct tt_cell_cache_task {
    int32_t executor;
    int32_t area, areas; /* it is of type `area` of `areas` types that have a cache */
    bool leaves;         /* members that move leave their rows; else they have both */
};

/* Sets `row` of the task's members, and puts them into the order of their rows. `count` is at most
 * the number of rows of an area. Time: linear in `count` where the members come nearly in the order
 * of their rows, as those of the batch before do. */
void tt_cell_caches_assign(struct tt_cell_caches *self, const struct tt_cell_cache_task *task,
                           struct tt_cell_cache_member *members, int32_t count);

#endif
