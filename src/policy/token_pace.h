/* When cells may run beside a decoder whose tokens have objectives (core/token_slo.h): the rules of
 * a policy by cells for the time to the first token (TTFT) and the time per output token (TPOT).
 *
 * Every request that has begun has a *due*: the instant of its next token that keeps both
 * objectives. A *round* is one task of each decoder, with a row for every request that has begun. A
 * task of another type delays the decoders. It may run if after it a round still ends by each due:
 * so prompts are read in the time that decoders are ahead of their dues.
 *
 * A request begins only if, with it,
 * - no round takes longer than the smallest TPOT of those that have begun;
 * - the round after its first task ends by their dues, and by its own TTFT.
 * If its TTFT is lost in any case, it begins without regard to it. A policy that drops does so
 * before: when the round after its first task, and the rest of its prompt at once, would end too
 * late, whatever the others' dues. If it waited on, those behind it could not keep theirs either.
 * The first request of all begins in any case. A request that is more than one TPOT behind its due
 * is given up, and holds no other back.
 *
 * If tasks take exactly as long as the profiles say, on one executor without `ahead`, and the steps
 * before the decoder are one cell, then every request that begins with its TTFT in reach keeps both
 * objectives. By beliefs (core/belief.h) the tails of times count. With several executors a round
 * is that of the largest batch that keeps TPOT, of which there is one on each.
 *
 * Prompts of several cells may hold each other back while no decoder has a cell. So that they do
 * not wait for ever, one of them runs where no task is in flight.
 *
 * Life of a request: _begins when its first cell is submitted; _forget when it leaves. It allocates
 * at init only. O(requests that have begun) per decision. It decides nothing: the policy asks how
 * many rows of a type may run. */
#ifndef TT_POLICY_TOKEN_PACE_H
#define TT_POLICY_TOKEN_PACE_H

#include "policy/cell_queue.h"

/* The requests that have begun, of the models that share a decoder's type. */
struct tt_token_load {
    const struct tt_cell_type *type;
    int32_t rows, length; /* length: of the longest input */
    int64_t tpot_ns;      /* the smallest; 0: none */
};

struct tt_token_pace {
    const struct tt_mechanism *domain;
    const struct tt_cell_queues *cells;
    bool is_ahead;       /* tasks are submitted while others run */
    int32_t model_count; /* number of models with objectives for tokens; 0: it is off */
    int32_t *decoders; /* [model_capacity]: the first step of the model's decoder; -1: the model has
                          no objectives */
    struct tt_list begun; /* requests of such models, by `link` */
    int64_t *began_at;    /* [executor_capacity]: when its oldest task began */
    int64_t *work_ns;     /* [executor_capacity][depth]: times of its tasks, by their places */
    int32_t depth;
    struct tt_token_load *loads; /* [load_count]: scratch of a decision; at most model_capacity */
    int32_t load_count;
};

TT_MUST_CHECK enum tt_err tt_token_pace_init(struct tt_token_pace *self,
                                             const struct tt_mechanism *domain,
                                             const struct tt_cell_queues *cells, bool is_ahead);
void tt_token_pace_fini(struct tt_token_pace *self); /* Also after a failed init. */
void tt_token_pace_model_changed(struct tt_token_pace *self, int32_t model, enum tt_change change);

static inline bool tt_token_pace_is_on(const struct tt_token_pace *self) {
    return self->model_count > 0;
}
/* True if the type is the decoder of a model with objectives for tokens. */
bool tt_token_pace_is_decoder(const struct tt_token_pace *self, const struct tt_cell_type *type);
/* How many rows of the type's ready cells, in the order of its queue, may be in a task that is
 * submitted to the executor now; 0: none. Some are ready for the executor. */
int32_t tt_token_pace_rows(struct tt_token_pace *self, int64_t now, int32_t executor,
                           const struct tt_cell_type *type);
/* The same of a task that runs although none may: the rows of the first request, and of those
 * behind it that have begun. */
int32_t tt_token_pace_forced_rows(const struct tt_cell_type *type, int32_t executor);
/* True if the request can no longer begin anywhere so that it keeps its TTFT beside those that have
 * begun: whatever becomes of their objectives, and if all of its prompt ran at once. It has not
 * begun, and is ready in this type. False if no executor is up. */
bool tt_token_pace_is_lost(struct tt_token_pace *self, int64_t now, const struct tt_cell_type *type,
                           const struct tt_request *request);
/* The earliest due of the requests whose decoder is of this type; TT_NEVER: none has one there. */
int64_t tt_token_pace_decoder_due(struct tt_token_pace *self, int64_t now, int32_t executor,
                                  const struct tt_cell_type *type);
/* The task was submitted; its requests that begin are in no list. */
void tt_token_pace_submitted(struct tt_token_pace *self, int64_t now, const struct tt_task *task);
/* The task has ended: forgets the requests that leave. */
void tt_token_pace_finished(struct tt_token_pace *self, int64_t now, const struct tt_task *task);
/* The request leaves; it has begun. */
void tt_token_pace_forget(struct tt_token_pace *self, struct tt_request *request);
void tt_token_pace_check(const struct tt_token_pace *self);

#endif
