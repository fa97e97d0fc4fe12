/* What a replay learns about requests of cells: their cells, from their arrivals, and the last
 * repeat of each open-ended chain, from their tasks.
 *
 * Life of a request here: added at its arrival (its cells stay in the recording); the ends of its
 * chains are noted as cells finish; then simulations of other policies read it, because a request's
 * cells and their ends do not depend on the policy. If a request left before its end was found
 * (cancelled, dropped, failed, truncated), it is assumed to end with the cell after the last one
 * that finished. `unknown` counts such requests.
 *
 * Policies that run whole sequences can be simulated if a model's requests are rows: one chain of
 * cells per step, each reading the one before. The steps are then recurrent blocks: closed chains
 * are encoders, open-ended ones decoders. */
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
    int32_t *ends; /* of requests with open-ended chains, by spec; -n: not found yet, n cells have
                      finished */
    int64_t end_count, end_capacity;
    struct tt_replay_cells_model *models; /* [model_capacity]; zero if a model had no request */
    int64_t model_capacity;
    struct tt_record_cells specs; /* of the request read last, */
    int32_t *spec_ends;           /* [spec_end_capacity]: its ends */
    int64_t spec_end_capacity;
};

/* The graph of the arrival's cells, the caller's. Errors: NO_MEMORY; INVALID: no policy could run
 * them; the message says why. */
TT_MUST_CHECK enum tt_err tt_replay_cells_graph(const struct tt_step_model *model,
                                                const struct tt_arrival *arrival,
                                                struct tt_cell_graph **out_graph,
                                                struct tt_error *why);
/* Adds the cells of an arrival, by its number among all (rejected ones too) and the model's number
 * in the replay. The event's bytes are borrowed for life. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_replay_cells_add(struct tt_replay_cells *self, int64_t arrival,
                                              int32_t model, int32_t step_count,
                                              const struct tt_recorded_event *event);
/* A cell of the chain has finished; `ends`: it was the last. */
void tt_replay_cells_done(struct tt_replay_cells *self, int64_t arrival,
                          const struct tt_task_item *item, bool ends);
/* In a task of whole sequences the request has made `rounds` rounds of the step in all; `ends`:
 * those are all. */
void tt_replay_cells_rounds(struct tt_replay_cells *self, int64_t arrival, int32_t step,
                            int32_t rounds, bool ends);
/* The number of requests with a chain whose end was not found. */
int64_t tt_replay_cells_unknown(struct tt_replay_cells *self);
/* The cells of the arrival, for a simulation; valid until the next call. False: it has none. */
bool tt_replay_cells_given(struct tt_replay_cells *self, int64_t arrival,
                           struct tt_sim_given *out_given);
/* The output length of a request that is a row with a decoder; else 0. */
int32_t tt_replay_cells_output(struct tt_replay_cells *self, int64_t arrival);

/* The form of the model's requests. */
enum tt_replay_form {
    TT_REPLAY_NO_CELLS,
    TT_REPLAY_ROWS, /* chains in sequence, as above */
    TT_REPLAY_GRAPHS,
};
enum tt_replay_form tt_replay_cells_form(const struct tt_replay_cells *self, int32_t model);
/* For a model of rows: the kind of the step, and the longest possible output. */
enum tt_step_kind tt_replay_cells_kind(const struct tt_replay_cells *self, int32_t model,
                                       int32_t step);
int32_t tt_replay_cells_longest(const struct tt_replay_cells *self, int32_t model);

void tt_replay_cells_fini(struct tt_replay_cells *self);

#endif
