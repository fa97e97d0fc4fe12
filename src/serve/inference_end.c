#include "serve/inference_end.h"

#include "base/instant.h"
#include "base/text.h"
#include "serve/cell_run.h"
#include "serve/inference_state.h"
#include "serve/input_ring.h"
#include "serve/served_model_state.h"

#include <string.h>

static void finish(struct tt_inference *inference, const struct tt_domain_client *client) {
    tt_assert(inference->request == NULL);
    tt_assert(inference->state == NULL);
    client->ended(client->context, inference);
}

/* Where answers keep the order of their requests: finishes the computed ones at the front. */
static void answer_in_order(struct tt_served_model *model, const struct tt_domain_client *client) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&model->in_order))) {
        struct tt_inference *first = TT_CONTAINER_OF(node, struct tt_inference, in_order);
        if (!first->is_computed)
            return;
        tt_list_remove(node);
        finish(first, client);
    }
}

void tt_inference_end(struct tt_inference *inference, enum tt_err err,
                      const struct tt_domain_client *client) {
    struct tt_served_model *model = inference->model;
    const struct tt_engine_ops *ops = model->engine_model->engine->ops;
    tt_assert(inference->submitted);
    tt_assert(!inference->is_computed);
    if (model->inputs)
        tt_input_ring_forget(model->inputs, inference);
    inference->request = NULL;
    tt_cell_run_free(inference->cell_run);
    inference->cell_run = NULL;
    ops->state_release(inference->state); /* NULL-safe; it ended before its last step */
    inference->state = NULL;
    if (err) {
        inference->err = err;
        if (inference->result)
            ops->result_release(inference->result);
        inference->result = NULL;
    }
    if (!tt_list_linked(&inference->in_order)) {
        finish(inference, client);
        return;
    }
    inference->is_computed = !err;
    if (err) { /* a failure waits for no other answer, and no other answer waits for it */
        tt_list_remove(&inference->in_order);
        finish(inference, client);
    }
    answer_in_order(model, client);
}

/* Counts the words of an answer. Without cells they come with it, as one. True: they were late. */
static bool count_words(const struct tt_inference *inference, int64_t ended_at) {
    struct tt_model_stats *stats = inference->model->stats;
    const struct tt_token_slo *slo = &inference->model->step_model.tokens;
    struct tt_token_times words = inference->words;
    if (words.count == 0)
        tt_token_times_add(&words, ended_at);
    if (words.count > 1)
        tt_duration_histogram_add(&stats->word_gap, tt_token_times_tpot(&words));
    bool late_first = words.first_at > tt_token_slo_first_by(slo, inference->since_at);
    bool late_gap = slo->tpot_ns > 0 && tt_token_times_tpot(&words) > slo->tpot_ns;
    tt_counter_add(&stats->late_first, late_first);
    tt_counter_add(&stats->late_gap, late_gap);
    return late_first || late_gap;
}

void tt_inference_end_count_answer(const struct tt_inference *inference, int64_t now) {
    struct tt_model_stats *stats = inference->model->stats;
    tt_counter_add(&stats->succeeded, 1);
    /* A turn's `now` may be a little older than the end of a task that it collects. */
    int64_t ended_at = now > inference->computed_at ? now : inference->computed_at;
    bool has_words =
        inference->words.count > 0 || tt_token_slo_given(&inference->model->step_model.tokens);
    bool late_words = has_words && count_words(inference, ended_at);
    tt_counter_add(&stats->late, ended_at > inference->deadline_at || late_words);
    tt_counter_add(&stats->request_ns, ended_at - inference->submitted_at);
    tt_counter_add(&stats->queue_ns, inference->started_at - inference->submitted_at);
    tt_counter_add(&stats->compute_ns, ended_at - inference->started_at);
    tt_counter_add(&stats->input_ns, inference->input_ns);
    tt_counter_add(&stats->infer_ns, inference->infer_ns);
    tt_counter_add(&stats->output_ns,
                   ended_at - inference->started_at - inference->input_ns - inference->infer_ns);
    tt_counter_set(&stats->last_at, ended_at);
}

void tt_inference_end_count_loss(const struct tt_inference *inference, int64_t now) {
    if (now > inference->submitted_at)
        tt_counter_add(&inference->model->stats->failed_ns, now - inference->submitted_at);
}

/* A sentence that is composed without printf: under overload most answers hold one. */
struct sentence {
    char *at, *end; /* end: where the NUL goes at the latest */
};

static inline void say_bytes(struct sentence *self, const char *bytes, size_t count) {
    size_t left = (size_t)(self->end - self->at);
    if (count > left) {
        memcpy(self->at, bytes, left);
        self->at = self->end;
        return;
    }
    memcpy(self->at, bytes, count);
    self->at += count;
}

static inline void say(struct sentence *self, const char *text) {
    say_bytes(self, text, __builtin_strlen(text)); /* a constant for most callers */
}

static void say_number(struct sentence *self, int64_t number) {
    char digits[TT_INTEGER_TEXT_BYTES];
    size_t count = tt_text_write_integer(number, digits);
    say_bytes(self, digits, count);
}

/* Milliseconds with three digits behind the point; 0 for negative ones. */
static void say_ms(struct sentence *self, int64_t ns) {
    int64_t us = ns > 0 ? ns / 1000 : 0;
    const char fraction[] = {'.', (char)('0' + us / 100 % 10), (char)('0' + us / 10 % 10),
                             (char)('0' + us % 10)};
    say_number(self, us / 1000);
    say_bytes(self, fraction, sizeof(fraction));
}

/* True if its first word would have been late rather than its last one. */
static bool lacks_first_word(const struct tt_inference *inference,
                             const struct tt_step_model *known) {
    if (known->tokens.ttft_ns == 0)
        return false;
    int64_t first_by_at = inference->since_at + known->tokens.ttft_ns;
    int64_t first_ns = tt_step_first_ns(known, inference->rows, inference->length);
    int64_t alone_ns = tt_profile_tail(known->whole, inference->rows, inference->length);
    return first_by_at - first_ns < inference->deadline_at - alone_ns;
}

static void say_first_word(struct sentence *sentence, const struct tt_inference *inference,
                           const struct tt_step_model *known, int64_t now) {
    say(sentence, "): its first word would have come after ttft_ms, ");
    say_ms(sentence, known->tokens.ttft_ns);
    say(sentence, " ms; it had waited ");
    say_ms(sentence, now - inference->since_at);
    say(sentence, " ms, and a first word takes ");
    say_ms(sentence, tt_step_first_ns(known, inference->rows, inference->length));
    say(sentence, " ms or more");
}

static void say_dropped(struct sentence *sentence, const struct tt_inference *inference,
                        const struct tt_mechanism *mechanism, const struct tt_request *request,
                        int64_t now, enum tt_drop_reason reason) {
    const struct tt_served_model *model = inference->model;
    say(sentence, "Request timeout expired: request to model '");
    say(sentence, model->name);
    say(sentence, "' dropped (");
    say(sentence, tt_drop_reason_name(reason));
    const struct tt_step_model *known = mechanism->models[model->index]; /* as believed */
    if (lacks_first_word(inference, known)) {
        say_first_word(sentence, inference, known, now);
        return;
    }
    if (inference->deadline_at == TT_NEVER) {
        say(sentence, ") after ");
        say_ms(sentence, now - inference->submitted_at);
        say(sentence, " ms");
        return;
    }
    int32_t rows = inference->rows, length = inference->length;
    bool by_centre = reason == TT_DROP_DEADLINE &&
                     tt_mechanism_goes_by_centre(mechanism, mechanism->latest.count);
    int64_t alone_ns = tt_profile_run(known->whole, rows, length, by_centre);
    say(sentence, "): it would have missed its deadline of ");
    say_ms(sentence, inference->deadline_at - inference->since_at);
    if (!inference->request && reason == TT_DROP_EARLY) { /* on arrival */
        say(sentence, " ms: the requests before it take ");
        say_ms(sentence, tt_mechanism_ahead_ns(mechanism, request));
        say(sentence, " ms or more, and computing it ");
        say_ms(sentence, alone_ns);
        say(sentence, " ms");
        return;
    }
    say(sentence, " ms; it had waited ");
    say_ms(sentence, now - inference->since_at);
    say(sentence, " ms, and computing it takes ");
    say_ms(sentence, alone_ns);
    say(sentence, " ms or more");
    if (!inference->request) /* on arrival, others did not matter */
        return;
    say(sentence, "; ");
    say_number(sentence, mechanism->requests.in_use);
    say(sentence, " requests are in flight in its scheduling domain");
}

enum tt_err tt_inference_end_say_dropped(struct tt_inference *inference,
                                         const struct tt_mechanism *mechanism,
                                         const struct tt_request *request, int64_t now,
                                         enum tt_drop_reason reason) {
    const struct tt_served_model *model = inference->model;
    const char *name = model->name;
    if (reason == TT_DROP_QUEUE_FULL)
        return tt_fail(TT_ERR_BUSY, &inference->why,
                       "Exceeds maximum queue size: model '%s' has %lld requests waiting, its "
                       "max_queue_size",
                       name, (long long)model->rules[inference->priority].max_count);
    if (reason == TT_DROP_WITHDRAWN)
        return tt_fail(TT_ERR_UNAVAILABLE, &inference->why,
                       "request to model '%s' dropped: the model is going away", name);
    char *text = inference->why.text;
    struct sentence sentence = {text, text + sizeof(inference->why.text) - 1};
    say_dropped(&sentence, inference, mechanism, request, now, reason);
    *sentence.at = '\0';
    return TT_ERR_TIMEOUT;
}
