#include "lab/scenario/server_cost.h"

struct tt_sim_server tt_server_cost_threads(const struct tt_server_cost *self) {
    /* Reading a request and writing its answer are taken to cost the same. */
    int64_t answer_ns = self->runs_batches ? 0 : self->request_ns / 2;
    return (struct tt_sim_server){.processors = self->cores,
                                  .runs_models = !self->emulates && !self->runs_batches,
                                  .client_turn_ns = self->client_turn_ns,
                                  .client_event_ns = self->client_ns / 2,
                                  .front_turn_ns = self->turn_ns,
                                  .front_request_ns = self->request_ns - answer_ns,
                                  .front_answer_ns = answer_ns,
                                  .client_rejection_ns = self->client_rejection_ns,
                                  .front_rejection_ns = self->rejection_ns,
                                  .answers_at_once = self->runs_batches,
                                  .connections = self->connections};
}
