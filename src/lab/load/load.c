#include "lab/load/load.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const outcome_names[TT_LOAD_OUTCOMES] = {
    "ok", "late", "rejected", "failed", "timed_out", "broken", "cancelled", "unfinished"};

const char *tt_load_outcome_name(enum tt_load_outcome outcome) { return outcome_names[outcome]; }

static void model_init(struct tt_load_model *model) {
    *model = (struct tt_load_model){0};
    tt_histogram_init(&model->latency_ns);
    tt_histogram_init(&model->service_ns);
    tt_histogram_init(&model->lag_ns);
}

void tt_load_model_fini(struct tt_load_model *self) {
    tt_histogram_fini(&self->latency_ns);
    tt_histogram_fini(&self->service_ns);
    tt_histogram_fini(&self->lag_ns);
}

enum tt_err tt_load_init(struct tt_load *self, const struct tt_scenario *scenario,
                         int32_t concurrency, struct tt_error *why) {
    *self =
        (struct tt_load){.scenario = scenario, .concurrency = concurrency, .stopped_at = TT_NEVER};
    self->models = tt_allocate((size_t)scenario->model_count, sizeof(*self->models));
    for (int32_t m = 0; m < scenario->model_count; m++) {
        model_init(&self->models[m]);
        self->weight_sum += scenario->models[m].weight;
    }
    if (concurrency > 0) {
        tt_prng_init(&self->prng, scenario->seed, 0);
        return TT_OK;
    }
    enum tt_err err = tt_arrival_source_open(&self->source, scenario, why);
    if (err) {
        tt_load_fini(self);
        return err;
    }
    self->has_next = tt_arrival_source_next(&self->source, &self->next);
    return TT_OK;
}

void tt_load_fini(struct tt_load *self) {
    for (int32_t m = 0; self->models && m < self->scenario->model_count; m++)
        tt_load_model_fini(&self->models[m]);
    free(self->models);
    self->models = NULL;
    tt_arrival_source_close(&self->source);
}

/* --- the next request --- */

/* Closed loop: whether another request may come, now or after one has ended. */
static bool goes_on(const struct tt_load *self, int64_t now) {
    const struct tt_scenario *s = self->scenario;
    return self->stopped_at == TT_NEVER && now < s->duration_ns &&
           (s->request_limit == 0 || self->taken < s->request_limit);
}

int64_t tt_load_next_at(const struct tt_load *self, int64_t now) {
    if (self->concurrency == 0)
        return self->has_next ? self->next.at : TT_NEVER;
    bool room = self->taken - self->ended < self->concurrency;
    return room && goes_on(self, now) ? now : TT_NEVER;
}

static int32_t draw_model(struct tt_load *self) {
    int64_t point = (int64_t)tt_prng_below(&self->prng, (uint64_t)self->weight_sum);
    int32_t m = 0;
    while (point >= self->scenario->models[m].weight)
        point -= self->scenario->models[m++].weight;
    return m;
}

static void take_closed(struct tt_load *self, int64_t now, struct tt_load_request *out) {
    int32_t m = draw_model(self);
    const struct tt_scenario_model *model = &self->scenario->models[m];
    *out = (struct tt_load_request){.number = self->taken,
                                    .at = now,
                                    .deadline_at = tt_instant_add(model->step_model.slo_ns, now),
                                    .cancel_at = TT_NEVER,
                                    .model = m,
                                    .rows = model->rows,
                                    .length = model->length};
}

static void take_open(struct tt_load *self, struct tt_load_request *out) {
    const struct tt_sim_arrival *arrival = &self->next;
    *out = (struct tt_load_request){.number = self->taken,
                                    .at = arrival->at,
                                    .deadline_at = arrival->deadline_at,
                                    .cancel_at = arrival->cancel_at,
                                    .model = arrival->model,
                                    .rows = arrival->rows,
                                    .length = arrival->length,
                                    .priority = arrival->priority};
    self->has_next = tt_arrival_source_next(&self->source, &self->next);
}

bool tt_load_take(struct tt_load *self, int64_t now, struct tt_load_request *out_request) {
    if (tt_load_next_at(self, now) > now)
        return false;
    if (self->concurrency > 0)
        take_closed(self, now, out_request);
    else
        take_open(self, out_request);
    self->taken++;
    if (out_request->at >= self->scenario->warm_up_ns)
        self->models[out_request->model].arrived++;
    return true;
}

bool tt_load_done(const struct tt_load *self, int64_t now) {
    bool more = self->concurrency > 0 ? goes_on(self, now) : self->has_next;
    return !more && self->taken == self->ended;
}

void tt_load_stop(struct tt_load *self, int64_t now) {
    self->stopped_at = tt_instant_min(self->stopped_at, now);
    self->has_next = false;
}

/* --- how requests end --- */

/* Replaces each number by one '#'; digits in a name ("fp32", "mlp_2") are not a number. */
static void generalise(const char *reason, char *out, size_t capacity) {
    size_t length = 0;
    bool in_name = false;
    while (*reason && length + 1 < capacity) {
        unsigned char c = (unsigned char)*reason;
        bool digit = c >= '0' && c <= '9';
        if (digit && !in_name) {
            reason += strspn(reason, "0123456789");
            out[length++] = '#';
            continue;
        }
        in_name = digit || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        out[length++] = c < ' ' ? ' ' : (char)c;
        reason++;
    }
    out[length] = '\0';
}

/* The text of one answer. A server chose it: control characters are replaced. */
static void put_example(const char *reason, char *out, size_t capacity) {
    snprintf(out, capacity, "%s", reason);
    for (char *at = out; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

static void count_reason(struct tt_load *self, int32_t status, const char *reason) {
    char text[TT_LOAD_REASON_BYTES] = "";
    size_t length = 0;
    if (status)
        length = (size_t)snprintf(text, sizeof(text), "HTTP %d%s", status, *reason ? ": " : "");
    generalise(reason, text + length, sizeof(text) - length);
    int32_t i = 0;
    while (i < self->reason_count && strcmp(self->reasons[i].text, text) != 0)
        i++;
    if (i == TT_LOAD_MAX_REASONS) {
        i--;
    } else if (i == self->reason_count) {
        strcpy(self->reasons[i].text, i == TT_LOAD_MAX_REASONS - 1 ? "others" : text);
        put_example(reason, self->reasons[i].example, sizeof(self->reasons[i].example));
        self->reason_count++;
    }
    self->reasons[i].count++;
}

static enum tt_load_outcome outcome_of(const struct tt_load_request *request, int64_t now,
                                       enum tt_load_end end) {
    switch (end) {
    case TT_LOAD_ANSWERED:
        return now <= request->deadline_at ? TT_LOAD_OUTCOME_OK : TT_LOAD_OUTCOME_LATE;
    case TT_LOAD_REJECTED: return TT_LOAD_OUTCOME_REJECTED;
    case TT_LOAD_FAILED: return TT_LOAD_OUTCOME_FAILED;
    case TT_LOAD_TIMED_OUT: return TT_LOAD_OUTCOME_TIMED_OUT;
    case TT_LOAD_BROKEN: return TT_LOAD_OUTCOME_BROKEN;
    case TT_LOAD_CANCELLED: return TT_LOAD_OUTCOME_CANCELLED;
    case TT_LOAD_UNFINISHED: break;
    }
    return TT_LOAD_OUTCOME_UNFINISHED;
}

enum tt_load_outcome tt_load_ended(struct tt_load *self, const struct tt_load_request *request,
                                   int64_t now, const struct tt_load_result *result) {
    enum tt_load_outcome outcome = outcome_of(request, now, result->end);
    tt_assert(self->ended < self->taken);
    self->ended++;
    if (request->at < self->scenario->warm_up_ns)
        return outcome;
    struct tt_load_model *model = &self->models[request->model];
    self->last_end_at = tt_instant_max(self->last_end_at, now);
    model->outcomes[outcome]++;
    model->sent_bytes += result->sent_bytes;
    model->received_bytes += result->received_bytes;
    if (result->sent_at >= 0)
        tt_histogram_add(&model->lag_ns, tt_instant_max(0, result->sent_at - request->at));
    if (result->end == TT_LOAD_ANSWERED) {
        tt_histogram_add(&model->latency_ns, tt_instant_max(0, now - request->at));
        tt_histogram_add(&model->service_ns, tt_instant_max(0, now - result->sent_at));
    } else if (result->end != TT_LOAD_CANCELLED) {
        const char *unsaid = result->status ? "" : outcome_names[outcome];
        count_reason(self, result->status, result->reason ? result->reason : unsaid);
    }
    return outcome;
}

/* --- figures --- */

int64_t tt_load_bad(const struct tt_load_model *model) {
    int64_t sum = 0;
    for (int i = TT_LOAD_OUTCOME_LATE; i < TT_LOAD_OUTCOME_CANCELLED; i++)
        sum += model->outcomes[i];
    return sum;
}

double tt_load_bad_rate(const struct tt_load_model *model) {
    int64_t bad = tt_load_bad(model), all = bad + model->outcomes[TT_LOAD_OUTCOME_OK];
    return all ? (double)bad / (double)all : 0;
}

int64_t tt_load_window_ns(const struct tt_load *self) {
    const struct tt_scenario *s = self->scenario;
    bool by_time =
        self->stopped_at == TT_NEVER && s->duration_ns != TT_NEVER && s->request_limit == 0;
    int64_t end_at = by_time ? s->duration_ns : self->last_end_at;
    return tt_instant_max(1, end_at - s->warm_up_ns);
}

void tt_load_total(const struct tt_load *self, struct tt_load_model *out) {
    model_init(out);
    for (int32_t m = 0; m < self->scenario->model_count; m++) {
        const struct tt_load_model *model = &self->models[m];
        out->arrived += model->arrived;
        for (int i = 0; i < TT_LOAD_OUTCOMES; i++)
            out->outcomes[i] += model->outcomes[i];
        tt_histogram_merge(&out->latency_ns, &model->latency_ns);
        tt_histogram_merge(&out->service_ns, &model->service_ns);
        tt_histogram_merge(&out->lag_ns, &model->lag_ns);
        out->sent_bytes += model->sent_bytes;
        out->received_bytes += model->received_bytes;
    }
}
