#include "serve/ensemble_run.h"

#include "base/clock.h"
#include "base/instant.h"
#include "core/mechanism.h"
#include "serve/ensemble.h"
#include "serve/inference.h"
#include "serve/inference_state.h"
#include "serve/port.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bit(int32_t step) { return UINT64_C(1) << step; }
static bool has(uint64_t set, int32_t step) { return set & bit(step); }

/* The steps that read no inputs any more. */
static uint64_t done_reading(const struct tt_ensemble_run *self) {
    return self->returned | (self->ended & ~self->lost);
}

void tt_ensemble_run_check(const struct tt_ensemble_run *self) {
    uint64_t all = tt_ensemble_all(self->ensemble);
    tt_assert(((self->begun | self->returned) & ~all) == 0);
    tt_assert((self->submitted & ~self->begun) == 0);
    tt_assert((self->ended & ~self->submitted) == 0);
    tt_assert((self->lost & ~self->ended) == 0);
    tt_assert((self->released & ~self->begun) == 0);
    tt_assert((self->released & self->submitted & ~self->ended) == 0);
    tt_assert((self->returned & self->begun & ~self->released) == 0);
    for (int32_t s = 0; s < self->ensemble->step_count; s++) {
        const struct tt_ensemble_step *step = &self->ensemble->steps[s];
        tt_assert(self->places[s].run == self);
        tt_assert(!has(self->begun, s) || (step->sources & ~self->ended) == 0);
        tt_assert(!has(self->released, s) || (step->readers & ~done_reading(self)) == 0);
    }
}

static int32_t place_index(const struct tt_ensemble_place *place) {
    return (int32_t)(place - place->run->places);
}

/* ---- the end of steps ---- */

/* Releases every step that has ended, or was not sent, and that nothing reads any more. Readers
 * come after what they read, so one pass from the end finds all. */
static void release_unread(struct tt_ensemble_run *self) {
    tt_assert(!self->is_releasing);
    self->is_releasing = true;
    for (int32_t s = self->ensemble->step_count - 1; s >= 0; s--) {
        const struct tt_ensemble_step *step = &self->ensemble->steps[s];
        bool is_open = has(self->begun, s) && !has(self->released, s);
        if (!is_open || has(self->submitted & ~self->ended, s) ||
            (step->readers & ~done_reading(self)) || (step->is_shown && !self->whole->released))
            continue;
        self->released |= bit(s);
        tt_inference_release(self->places[s].inference);
    }
    self->is_releasing = false;
}

static void recycle_if_returned(struct tt_ensemble_run *self) {
    if (!self->whole->released || self->returned != tt_ensemble_all(self->ensemble))
        return;
    tt_ensemble_run_check(self);
    tt_port_found(self->whole);
    tt_port_recycle(self->whole);
}

/* Nothing reads the step's inputs any more. */
static void on_returned(void *context) {
    struct tt_ensemble_place *place = context;
    struct tt_ensemble_run *self = place->run;
    self->returned |= bit(place_index(place));
    if (self->is_releasing)
        return; /* the pass goes on */
    release_unread(self);
    recycle_if_returned(self);
}

/* ---- the end of the whole ---- */

static void count_end(const struct tt_ensemble_run *self, int64_t now) {
    const struct tt_inference *whole = self->whole;
    struct tt_model_stats *stats = whole->model->stats;
    int64_t took_ns = now - whole->submitted_at;
    tt_assert(took_ns >= 0);
    if (whole->err) {
        struct tt_counter *counter = whole->drop                      ? &stats->dropped[whole->drop]
                                     : whole->err == TT_ERR_CANCELLED ? &stats->cancelled
                                     : whole->err == TT_ERR_BUSY      ? &stats->rejected
                                                                      : &stats->failed;
        tt_counter_add_shared(counter, 1);
        tt_counter_add_shared(&stats->failed_ns, took_ns);
        return;
    }
    tt_model_stats_count_whole(stats, whole->rows, took_ns, self->queue_ns);
    tt_counter_add_shared(&stats->late, now > whole->deadline_at);
    tt_counter_add_shared(&stats->compute_ns, self->compute_ns);
    tt_counter_add_shared(&stats->input_ns, whole->input_ns);
    tt_counter_add_shared(&stats->infer_ns, whole->infer_ns);
    tt_counter_add_shared(&stats->output_ns, self->compute_ns - whole->input_ns - whole->infer_ns);
    tt_counter_set(&stats->last_at, now);
}

/* The last thing that the run does, unless its whole was not released: `done` may release it. */
static void finish(struct tt_ensemble_run *self) {
    struct tt_inference *whole = self->whole;
    if (!self->failed && self->ended != tt_ensemble_all(self->ensemble))
        whole->err = tt_fail(TT_ERR_CANCELLED, &whole->why, "the client cancelled the request");
    self->returned |= tt_ensemble_all(self->ensemble) & ~self->begun;
    release_unread(self);
    whole->started_at = tt_instant_add(whole->submitted_at, self->queue_ns);
    whole->finished = true;
    if (self->lost & ~self->returned)
        tt_port_lost(whole); /* before `done`: it may be a step itself */
    tt_ensemble_run_check(self);
    count_end(self, tt_clock_now());
    whole->done(whole->context, whole, whole->err, whole->why.text);
}

/* ---- steps ---- */

/* Names the step in a message about it. */
static enum tt_err fail_in_step(const struct tt_ensemble_step *step, enum tt_err err,
                                struct tt_error *why) {
    return tt_fail_in(err, why, "step %d (model '%s')", step->number, step->model->name);
}

/* The whole fails for the first such reason, `drop` if the step was dropped; what runs is
 * cancelled. */
static void fail(struct tt_ensemble_run *self, enum tt_err err, enum tt_drop_reason drop,
                 const struct tt_error *why) {
    struct tt_inference *whole = self->whole;
    if (self->failed)
        return;
    self->failed = true;
    whole->err = err;
    whole->drop = drop;
    whole->why = *why;
    for (int32_t other = 0; other < self->ensemble->step_count; other++)
        if (has(self->submitted & ~self->ended, other))
            tt_inference_cancel(self->places[other].inference);
}

static enum tt_err begin_step(struct tt_ensemble_run *self, int32_t s, struct tt_error *why) {
    const struct tt_ensemble_step *step = &self->ensemble->steps[s];
    struct tt_tensor_view inputs[TT_MAX_TENSORS];
    tt_assert(!has(self->begun, s));
    for (int32_t i = 0; i < step->model->signature->input_count; i++) {
        const struct tt_ensemble_source *source = &step->inputs[i];
        if (source->step < 0)
            inputs[i] = self->whole->inputs[source->tensor];
        else
            tt_inference_output(self->places[source->step].inference, source->tensor, &inputs[i]);
    }
    const struct tt_inference_loan loan = {inputs, on_returned, &self->places[s]};
    enum tt_err err = tt_inference_begin_lent(tt_port_of(self->whole->lane), step->model, &loan,
                                              &self->places[s].inference, why);
    if (err)
        return fail_in_step(step, err, why);
    self->begun |= bit(s);
    return TT_OK;
}

static void on_step_done(void *context, struct tt_inference *inference, enum tt_err err,
                         const char *why);

static void submit_step(struct tt_ensemble_run *self, int32_t s, int64_t now) {
    const struct tt_inference *whole = self->whole;
    struct tt_inference_options options = {
        .timeout_ns = tt_ensemble_patience(&self->ensemble->steps[s], now, whole->deadline_at),
        .since_at = now,
        .priority = whole->priority};
    if (whole->has_id)
        memcpy(options.id, whole->id, sizeof(options.id));
    self->submitted |= bit(s);
    tt_inference_submit(self->places[s].inference, &options, on_step_done, &self->places[s]);
}

/* Begins and sends the steps that waited for step `s` last. */
static void go_on(struct tt_ensemble_run *self, int32_t s, int64_t now) {
    for (int32_t r = s + 1; r < self->ensemble->step_count && !self->failed; r++) {
        const struct tt_ensemble_step *reader = &self->ensemble->steps[r];
        struct tt_error why;
        if (!has(reader->sources, s) || (reader->sources & ~self->ended))
            continue;
        enum tt_err err = begin_step(self, r, &why);
        if (err)
            fail(self, err, TT_DROP_NONE, &why);
        else
            submit_step(self, r, now);
    }
}

/* The inference may be released, and used again, before the whole ends. */
static void keep_account(struct tt_ensemble_place *place, int64_t now, bool is_failed) {
    const struct tt_ensemble_step *step = &place->run->ensemble->steps[place_index(place)];
    struct tt_inference_account account;
    tt_inference_account(place->inference, &account);
    place->went = (struct tt_inference_step){.model = step->model->name,
                                             .number = step->number,
                                             .batch_rows = account.batch_rows,
                                             .deadline_at = account.deadline_at,
                                             .submitted_at = account.submitted_at,
                                             .started_at = account.started_at,
                                             .ended_at = now,
                                             .is_failed = is_failed};
}

static void on_step_done(void *context, struct tt_inference *inference, enum tt_err err,
                         const char *why) {
    struct tt_ensemble_place *place = context;
    struct tt_ensemble_run *self = place->run;
    int32_t s = place_index(place);
    int64_t now = tt_clock_now();
    tt_assert(place->inference == inference);
    keep_account(place, now, err != TT_OK);
    self->ended |= bit(s);
    self->lost |= inference->is_lost ? bit(s) : 0;
    if (err) {
        struct tt_error message;
        (void)tt_fail(err, &message, "%s", why);
        fail(self, fail_in_step(&self->ensemble->steps[s], err, &message), inference->drop,
             &message);
    } else {
        self->queue_ns += inference->started_at - inference->submitted_at;
        self->compute_ns += tt_instant_max(now - inference->started_at, 0);
        self->whole->input_ns += inference->input_ns;
        self->whole->infer_ns += inference->infer_ns;
        if (!self->failed && !self->whole->cancel_sent)
            go_on(self, s, now);
    }
    if (self->submitted == self->ended)
        finish(self);
    else
        release_unread(self);
}

/* ---- the whole ---- */

static struct tt_ensemble_run *run_of(struct tt_inference *whole) {
    const struct tt_ensemble *ensemble = whole->model->ensemble;
    size_t places = (size_t)ensemble->step_count;
    if (!whole->run)
        whole->run = malloc(sizeof(*whole->run) + places * sizeof(whole->run->places[0]));
    if (!whole->run)
        return NULL;
    *whole->run = (struct tt_ensemble_run){.whole = whole, .ensemble = ensemble};
    for (size_t s = 0; s < places; s++)
        whole->run->places[s] = (struct tt_ensemble_place){.run = whole->run};
    whole->input_ns = whole->infer_ns = 0;
    return whole->run;
}

static enum tt_err begin(struct tt_inference *whole, struct tt_error *why) {
    struct tt_ensemble_run *self = run_of(whole);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request to model '%s'",
                       whole->model->name);
    enum tt_err err = TT_OK;
    for (int32_t s = 0; s < self->ensemble->step_count && !err; s++)
        if (!self->ensemble->steps[s].sources)
            err = begin_step(self, s, why);
    return err;
}

static void submit(struct tt_inference *whole) {
    struct tt_ensemble_run *self = whole->run;
    uint64_t first = self->begun;
    tt_counter_add_shared(&whole->model->stats->accepted, 1);
    for (int32_t s = 0; s < self->ensemble->step_count; s++)
        if (has(first, s))
            submit_step(self, s, whole->submitted_at);
}

static void cancel(struct tt_inference *whole) {
    struct tt_ensemble_run *self = whole->run;
    whole->cancel_acknowledged = true; /* no message is about the whole */
    for (int32_t s = 0; s < self->ensemble->step_count; s++)
        if (has(self->submitted & ~self->ended, s))
            tt_inference_cancel(self->places[s].inference);
}

static void output(const struct tt_inference *whole, int32_t output_index,
                   struct tt_tensor_view *out_view) {
    const struct tt_ensemble_source *source = &whole->model->ensemble->outputs[output_index];
    tt_assert(!whole->err);
    tt_inference_output(whole->run->places[source->step].inference, source->tensor, out_view);
}

static bool step_of(const struct tt_inference *whole, int32_t index,
                    struct tt_inference_step *out_step) {
    const struct tt_ensemble_run *self = whole->run;
    uint64_t left = self ? self->ended : 0;
    for (; left && index > 0; index--)
        left &= left - 1;
    if (left)
        *out_step = self->places[__builtin_ctzll(left)].went;
    return left;
}

static void release(struct tt_inference *whole) {
    struct tt_ensemble_run *self = whole->run;
    tt_assert(whole->released);
    if (!self) { /* there was no memory for the run */
        tt_port_recycle(whole);
        return;
    }
    self->returned |= tt_ensemble_all(self->ensemble) & ~self->begun;
    release_unread(self);
    recycle_if_returned(self);
}

void tt_ensemble_attach(struct tt_served_model *model, const struct tt_signature *signature,
                        struct tt_ensemble *take_ensemble) {
    static const struct tt_ensemble_ops ops = {.begin = begin,
                                               .submit = submit,
                                               .cancel = cancel,
                                               .output = output,
                                               .step = step_of,
                                               .release = release};
    take_ensemble->ops = &ops;
    tt_served_model_compose(model, signature, take_ensemble, tt_ensemble_free);
}
