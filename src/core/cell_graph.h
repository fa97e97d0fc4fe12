/* C3: a request by cells: which cells it has, which cell reads which, and its progress.
 *
 * A cell is one row of the steps of a model that runs as one (usually one step: one recurrent
 * cell). An unfold function turns a request into specs: cells in an order in which each reads only
 * earlier ones. A chain of equal cells, each reading the one before, is one spec with `repeat`. So
 * a sentence of 24 words is one spec, and a tree is one spec per node. The graph is made from the
 * specs once, in one allocation. It is cut into subgraphs: connected cells of one type, such that
 * no subgraph waits for itself through others. A chain needs no memory per cell.
 *
 * Two events matter (C4, C5):
 * - Submission, within a subgraph: a cell is ready when the cells that it reads are *submitted*.
 *   All cells of a subgraph that are in flight are on one executor, which keeps their order.
 * - Completion, between subgraphs: a subgraph is *released* when all subgraphs that it waits for
 *   are over.
 *
 * An open-ended chain is over when the world says so (an <eos>) or at its full length. Cells
 * submitted beyond that point run, and their results are discarded.
 *
 * Life: the carrier makes the graph when the request arrives and lends it to the mechanism. Only
 * the mechanism advances it. The carrier frees it when the mechanism reports that none of its cells
 * is in flight. The graph knows no policy, no speed of an executor, no tensor. */
#ifndef TT_CORE_CELL_GRAPH_H
#define TT_CORE_CELL_GRAPH_H

#include "base/err.h"
#include "base/line.h"
#include "base/list.h"
#include "core/token_slo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Output of an unfold function. */
struct tt_cell_spec {
    int32_t first_step, last_step; /* the steps of the cell: its type */
    int32_t repeat;                /* cells in a chain, each reading the one before; >= 1 */
    bool open_ended;               /* `repeat` is the maximum: the chain may end after any cell */
    int32_t source_count;          /* specs that the chain's first cell reads, by their last cell */
    const int32_t *sources;        /* [source_count]: indices of earlier specs; borrowed */
};

/* Maximum over all specs of a request. */
enum { TT_CELL_GRAPH_MAX_CELLS = 1 << 20 };

struct tt_request;

/* Everything that a step of one of its cells touches is in one cache line: between two steps the
 * device has run, so little of it is cached. */
struct tt_cell_subgraph {
    struct tt_list_node link; /* owned by the policy, from `released` on */
    int64_t word;             /* owned by the policy */
    int32_t holder;           /* owned by the policy: whose list it is in */
    int32_t counted_rows;     /* owned by the policy: its rows that the list counts */
    struct tt_request *request;
    int32_t count; /* number of cells; of an open-ended chain the maximum */
    int32_t ready; /* cells that may be submitted now */
    int32_t submitted;
    int32_t in_flight; /* cells submitted and not back; > 0: pinned to `executor` (C5) */
    int32_t executor;  /* the executor that it is pinned to; -1: none */
    bool is_chain;     /* one spec, each cell reading the one before */
    bool open_ended;
    bool over; /* all cells are done, or its end was found */
    /* The second line. Copied from its request before `released`: */
    int32_t model, rows;
    void *user; /* copied from the graph */
    int32_t first_step, last_step;
    int32_t waits_for;               /* number of subgraphs before it that are not over */
    int32_t spec;                    /* index of its first spec; a chain is that one alone */
    int32_t first_ready, last_ready; /* if no chain: queue through cells[].next_ready; -1: empty */
    int32_t first_follower, follower_count; /* range in graph->followers */
} __attribute__((aligned(TT_LINE_BYTES)));
_Static_assert(sizeof(void *) != 8 || offsetof(struct tt_cell_subgraph, model) == TT_LINE_BYTES,
               "one cache line");

/* One spec of a subgraph that is not a chain. */
struct tt_cell {
    int32_t waits;      /* cells of its subgraph that it reads and that are not submitted */
    int32_t next_ready; /* -1: none */
    int32_t first_reader, reader_count; /* range in graph->readers: specs in the same subgraph */
};

struct tt_cell_graph {
    void *user; /* owned by the carrier */
    int32_t subgraph_count, over_count;
    int32_t cell_count; /* total, with open-ended chains at their maximum */
    int32_t spec_count;
    struct tt_cell_subgraph *subgraphs;
    int32_t *subgraph_of;         /* [spec_count] */
    struct tt_cell *cells;        /* [spec_count]; NULL: all subgraphs are chains */
    int32_t *followers;           /* indices of subgraphs */
    int32_t *readers;             /* indices of specs */
    struct tt_token_times tokens; /* that came, if its model has objectives for them */
};

/* Makes the graph of a request; `step_count` is the model's. INVALID: no spec, a repeat or a step
 * out of range, a source that is not an earlier spec, or too many cells. The message says which. */
TT_MUST_CHECK enum tt_err tt_cell_graph_new(const struct tt_cell_spec *specs, int32_t spec_count,
                                            int32_t step_count, struct tt_cell_graph **out_graph,
                                            struct tt_error *why);
void tt_cell_graph_free(struct tt_cell_graph *take_graph);

/* ---- for the mechanism only ---- */

/* For subgraphs that are no chain. */
int32_t tt_cell_subgraph_take_spec(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph);
void tt_cell_subgraph_spec_submitted(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph,
                                     int32_t spec);
/* Number of its cells that are back. */
static inline int32_t tt_cell_subgraph_done(const struct tt_cell_subgraph *self) {
    return self->submitted - self->in_flight;
}
/* Takes the next ready cell. Returns the number of the repeat in a chain, else the index of its
 * spec. */
static inline int32_t tt_cell_subgraph_take(struct tt_cell_graph *self,
                                            struct tt_cell_subgraph *subgraph) {
    tt_assert(subgraph->waits_for == 0 && !subgraph->over);
    tt_assert(subgraph->ready > 0);
    subgraph->ready--;
    int32_t repeat = subgraph->submitted++;
    return subgraph->is_chain ? repeat : tt_cell_subgraph_take_spec(self, subgraph);
}
/* The cell was submitted: cells that read it within its subgraph become ready. */
static inline void tt_cell_subgraph_submitted(struct tt_cell_graph *self,
                                              struct tt_cell_subgraph *subgraph, int32_t cell) {
    if (!subgraph->is_chain) {
        tt_cell_subgraph_spec_submitted(self, subgraph, cell);
        return;
    }
    tt_assert(subgraph->ready == 0 && subgraph->submitted == cell + 1);
    subgraph->ready = subgraph->submitted < subgraph->count;
}
/* Marks the subgraph as over, and calls `released` for each subgraph that waits for nothing else.
 */
void tt_cell_subgraph_over(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph,
                           void (*released)(void *context, struct tt_cell_subgraph *subgraph),
                           void *context);
/* Checks that all counts agree. O(subgraphs + cells). */
void tt_cell_graph_check(const struct tt_cell_graph *self);

#endif
