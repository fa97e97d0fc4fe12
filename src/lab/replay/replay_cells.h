/* What a replay learns of requests of cells: what they are made of, as their arrivals said, and
 * after which repeat each open-ended chain really ended, as their tasks told.
 *
 * Life of a request here: added with its arrival (its cells stay where they are in the recording),
 * its chains' ends noted as cells come back, then read by simulations of other policies: what a
 * request is, and where it ends, does not depend on who decides. Of a request that left before its
 * end was found (cancelled, dropped, failed, cut off) that much is known as was computed: it is
 * taken to end with the cell after that. `unknown` counts them.
 *
 * Policies that run whole sequences can be simulated where a model's requests are rows: one chain
 * of cells per step, each reading the one before. Then its steps are recurrent blocks: closed
 * chains encoders, open-ended ones decoders. */
#ifndef TT_LAB_REPLAY_REPLAY_CELLS_H
#define TT_LAB_REPLAY_REPLAY_CELLS_H

#include "core/step_model.h"
#include "record/recording_reader.h"
#include "sim/simulation.h"

struct tt_replay_cells_request;
struct tt_replay_cells_model;

struct tt_replay_cells {
    struct tt_replay_cells_request *requests; /* [request_count], by arrival */
    int64_t request_count, request_capacity;
    int32_t *ends; /* of those with open-ended chains, by spec; -n: not found yet, n cells done */
    int64_t end_count, end_capacity;
    struct tt_replay_cells_model *models; /* [model_capacity]: zero, where one had no request */
    int64_t model_capacity;
    struct tt_record_cells specs; /* of the request looked at last, */
    int32_t *spec_ends;           /* [spec_end_capacity]: and its ends */
    int64_t spec_end_capacity;
};

/* The graph of the arrival's cells, the caller's. Errors: NO_MEMORY; INVALID: they are none that a
 * policy could run; the message says why. */
TT_MUST_CHECK enum tt_err tt_replay_cells_graph(const struct tt_step_model *model,
                                                const struct tt_arrival *arrival,
                                                struct tt_cell_graph **out_graph,
                                                struct tt_error *why);
/* The arrival of that number (of all, refused ones too), of the replay's model, has these cells.
 * The event's bytes are borrowed for life. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_replay_cells_add(struct tt_replay_cells *self, int64_t arrival,
                                              int32_t model, int32_t step_count,
                                              const struct tt_recorded_event *event);
/* A cell of the chain is back; `ends`: it was the last. */
void tt_replay_cells_done(struct tt_replay_cells *self, int64_t arrival,
                          const struct tt_task_item *item, bool ends);
/* In a task of whole sequences the request made `rounds` in the step, in all; `ends`: no more. */
void tt_replay_cells_rounds(struct tt_replay_cells *self, int64_t arrival, int32_t step,
                            int32_t rounds, bool ends);
/* How many requests have chains whose ends were not found. */
int64_t tt_replay_cells_unknown(struct tt_replay_cells *self);
/* What the arrival is made of, for a simulation; good until the next call. False: it has no cells.
 */
bool tt_replay_cells_given(struct tt_replay_cells *self, int64_t arrival,
                           struct tt_sim_given *out_given);
/* How many elements the request puts out where it is a row with a decoder; else 0. */
int32_t tt_replay_cells_output(struct tt_replay_cells *self, int64_t arrival);

/* What the model's requests are. */
enum tt_replay_form {
    TT_REPLAY_NO_CELLS,
    TT_REPLAY_ROWS, /* chains behind each other, as above */
    TT_REPLAY_GRAPHS,
};
enum tt_replay_form tt_replay_cells_form(const struct tt_replay_cells *self, int32_t model);
/* Of a model of rows: the step's kind, and the most that a request might have put out. */
enum tt_step_kind tt_replay_cells_kind(const struct tt_replay_cells *self, int32_t model,
                                       int32_t step);
int32_t tt_replay_cells_longest(const struct tt_replay_cells *self, int32_t model);

void tt_replay_cells_fini(struct tt_replay_cells *self);

#endif
