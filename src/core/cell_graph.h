/* C3: a request by cells: which cells it takes, which reads which, and how far it is.
 *
 * A cell is a row of a model's steps that runs as one (most often a single step: one recurrent
 * cell). An unfold function turns a request into specs: cells in an order in which each reads only
 * earlier ones, where a row of equal cells that each read the one before is one spec with `repeat`
 * (a sentence of 24 words is one spec, a tree one per node). From these the graph is made once, in
 * one piece of memory, and cut into subgraphs: connected cells of one type, such that a subgraph
 * never waits, through others, for itself. A chain needs no memory per cell.
 *
 * Two moments matter (C4, C5). Within a subgraph a cell is ready when those it reads were
 * *submitted*: all of a subgraph that is in flight is on one executor, which keeps the order.
 * Between subgraphs only completion counts: a subgraph is *released* when all that it waits for
 * are over. An open-ended chain is over when the world says so (an <eos>) or at its full length;
 * cells of it that were submitted beyond that point run, and what they make is thrown away.
 *
 * Life: made by the carrier when the request comes, lent to the mechanism with the arrival, moved
 * on by the mechanism alone, freed by the carrier when the mechanism says that nothing of it is in
 * flight any more. It knows no policy, no executor's speed, no tensor. */
#ifndef TT_CORE_CELL_GRAPH_H
#define TT_CORE_CELL_GRAPH_H

#include "base/err.h"
#include "base/line.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an unfold function writes. */
struct tt_cell_spec {
    int32_t first_step, last_step; /* the cell: its type */
    int32_t repeat;                /* so many in a row, each reading the one before; >= 1 */
    bool open_ended;               /* `repeat` is the most: it may end after any of them */
    int32_t source_count;          /* cells (by their last repeat) that the first of them reads */
    const int32_t *sources;        /* [source_count]: indices of earlier specs; borrowed */
};

/* What it may ask for in all. */
enum { TT_CELL_GRAPH_MAX_CELLS = 1 << 20 };

struct tt_request;

/* What each of its cells has to do with is one cache line; between two of them the device has run,
 * and little of it is in a cache. */
struct tt_cell_subgraph {
    struct tt_list_node link; /* the policy's, from `released` on */
    int64_t word;             /* the policy's, */
    int32_t place, counted;   /* and so are these */
    struct tt_request *request;
    int32_t count; /* cells in all; open-ended: at most */
    int32_t ready; /* of them may be submitted now */
    int32_t submitted;
    int32_t in_flight; /* submitted and not back: its pin (C5) holds while there are any */
    int32_t executor;  /* that it is pinned to; -1: none */
    bool is_chain;     /* one spec, each cell reading the one before */
    bool open_ended;
    bool over; /* all done, or its end was found */
    /* The second line. Of its request, from `released` on: */
    int32_t model, rows;
    void *user; /* the graph's */
    int32_t first_step, last_step;
    int32_t waits_for;               /* subgraphs that are not over yet */
    int32_t spec;                    /* the first spec in it; a chain is that one alone */
    int32_t first_ready, last_ready; /* no chain: a queue through cells[].next_ready; -1: empty */
    int32_t first_follower, follower_count; /* of graph->followers */
} __attribute__((aligned(TT_LINE_BYTES)));
_Static_assert(sizeof(void *) != 8 || offsetof(struct tt_cell_subgraph, model) == TT_LINE_BYTES,
               "one cache line");

/* One spec of a subgraph that is not a chain. */
struct tt_cell {
    int32_t waits;      /* cells of its subgraph that it reads and that are not submitted */
    int32_t next_ready; /* -1: none */
    int32_t first_reader, reader_count; /* of graph->readers: specs in the same subgraph */
};

struct tt_cell_graph {
    void *user; /* the carrier's */
    int32_t subgraph_count, over_count;
    int32_t cell_count; /* in all, open-ended chains at their longest */
    int32_t spec_count;
    struct tt_cell_subgraph *subgraphs;
    int32_t *subgraph_of;  /* [spec_count] */
    struct tt_cell *cells; /* [spec_count]; NULL: all subgraphs are chains */
    int32_t *followers;    /* subgraph numbers */
    int32_t *readers;      /* spec numbers */
};

/* INVALID: no spec, a repeat or a step out of range, a source that is not an earlier spec, too many
 * cells; the message says which. `step_count` is the model's. */
TT_MUST_CHECK enum tt_err tt_cell_graph_new(const struct tt_cell_spec *specs, int32_t spec_count,
                                            int32_t step_count, struct tt_cell_graph **out_graph,
                                            struct tt_error *why);
void tt_cell_graph_free(struct tt_cell_graph *take_graph);

/* ---- the mechanism's ---- */

/* Of a subgraph that is no chain. */
int32_t tt_cell_subgraph_take_spec(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph);
void tt_cell_subgraph_spec_submitted(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph,
                                     int32_t spec);
/* Cells of it that are back. */
static inline int32_t tt_cell_subgraph_done(const struct tt_cell_subgraph *self) {
    return self->submitted - self->in_flight;
}
/* Takes the next ready cell: in a chain the number of the repeat, else the number of its spec. */
static inline int32_t tt_cell_subgraph_take(struct tt_cell_graph *self,
                                            struct tt_cell_subgraph *subgraph) {
    tt_assert(subgraph->waits_for == 0 && !subgraph->over);
    tt_assert(subgraph->ready > 0);
    subgraph->ready--;
    int32_t repeat = subgraph->submitted++;
    return subgraph->is_chain ? repeat : tt_cell_subgraph_take_spec(self, subgraph);
}
/* The cell was submitted: what reads it within its subgraph may follow. */
static inline void tt_cell_subgraph_submitted(struct tt_cell_graph *self,
                                              struct tt_cell_subgraph *subgraph, int32_t cell) {
    if (!subgraph->is_chain) {
        tt_cell_subgraph_spec_submitted(self, subgraph, cell);
        return;
    }
    tt_assert(subgraph->ready == 0 && subgraph->submitted == cell + 1);
    subgraph->ready = subgraph->submitted < subgraph->count;
}
/* The subgraph is over; calls `released` for each that waited for nothing else. */
void tt_cell_subgraph_over(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph,
                           void (*released)(void *context, struct tt_cell_subgraph *subgraph),
                           void *context);
/* O(all of it): the books agree with each other. */
void tt_cell_graph_check(const struct tt_cell_graph *self);

#endif
